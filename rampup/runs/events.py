"""TensorBoard event files: scalars by step, in the record format of TensorFlow, written without TensorFlow.

An event file is a sequence of records (length, its checksum, payload, its checksum), each payload an `Event` message in
protocol buffer encoding. Only four fields of it are needed.
"""

import math
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

_POLYNOMIAL = 0x82F63B78


def _table() -> list[int]:
    table = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (_POLYNOMIAL if remainder & 1 else 0)
        table.append(remainder)
    return table


_CRC_TABLE = _table()


def _masked_crc(content: bytes) -> int:
    """CRC-32C, rotated and shifted as the record format asks."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", _masked_crc(length)) + payload + struct.pack("<I", _masked_crc(payload))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _bytes_field(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _event(step: int, body: bytes) -> bytes:
    """An Event: wall time (field 1), step (field 2), and what happened."""
    return b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + body


def _single(value: float) -> bytes:
    """A number in single precision; one beyond it is infinite there."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _scalars(scalars: Mapping[str, float]) -> bytes:
    """A Summary (field 5) of tags and simple values."""
    values = (
        _bytes_field(1, _bytes_field(1, tag.encode()) + b"\x15" + _single(value)) for tag, value in scalars.items()
    )
    return _bytes_field(5, b"".join(values))


class EventFile:
    """An event file that is being written; a new one replaces those that lie in the folder."""

    def __init__(self, folder: Path):
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self.file: BinaryIO = open(folder / f"events.out.tfevents.{int(time.time())}.rampup", "wb")  # noqa: SIM115 (kept open)
        self.file.write(_record(_event(0, _bytes_field(3, b"brain.Event:2"))))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write scalars of one step."""
        self.file.write(_record(_event(step, _scalars(scalars))))

    def flush(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()
