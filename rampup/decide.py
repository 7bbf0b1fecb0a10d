"""A policy at work: arrivals as JSON lines in, an answer to each out, and a journal that outlives the process.

An answer is forced to disk before it is given. So whoever goes on after a crash knows every answer that may have been
given, and no arrival is ever decided twice.
"""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rampup.portable.rampup_policy import ArrivalError, Episode, Policy, checksum

FORMAT, VERSION = "rampup-journal", 1


class Journal:
    """The answers of an episode on disk, in order; the last may not have reached whoever asked."""

    def __init__(self, path: str | Path, policy: Policy, seed: int | None):
        self.path = Path(path)
        try:
            self._file = open(path, "a+b")  # noqa: SIM115 (open as long as the process serves)
        except OSError as error:
            raise ValueError(f"cannot open the journal {str(path)!r}: {error.strerror}.") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process is at work with the journal {str(path)!r}: wait, or stop it.") from None
        lines = self._whole_lines()
        digest = checksum(policy.document)
        if not lines:
            self.seed, self.entries, self.num_delivered = seed, [], 0
            self._append({"format": FORMAT, "version": VERSION, "policy": digest, "seed": seed}, is_forced=True)
            return
        header, *rest = lines
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ValueError(f"{str(path)!r} is not a journal that this Rampup knows.")
        if header["policy"] != digest:
            raise ValueError(f"the journal {str(path)!r} is of another policy: give each episode a journal of its own.")
        if (header["seed"] is None) != (seed is None):
            raise ValueError(f"the journal {str(path)!r} was begun {'with' if seed is None else 'without'} `--sample`.")
        self.seed = header["seed"]
        self.entries = [line for line in rest if "answer" in line]
        self.num_delivered = max((line["delivered"] for line in rest if "delivered" in line), default=0)

    def _whole_lines(self) -> list[dict[str, Any]]:
        """What was written whole; a piece at the end was never answered, and is cut off."""
        self._file.seek(0)
        content = self._file.read()
        end = content.rfind(b"\n") + 1
        self._file.truncate(end)
        self._file.seek(end)
        found: list[Any] = []
        try:
            found += [json.loads(line) for line in content[:end].splitlines()]
        except ValueError:
            found.append(None)
        if not all(isinstance(line, dict) for line in found):
            raise ValueError(f"{str(self.path)!r} is not a journal of Rampup.")
        return found

    def _append(self, line: dict[str, Any], *, is_forced: bool) -> None:
        try:
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()
            if is_forced:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise ValueError(f"cannot write the journal {str(self.path)!r}: {error.strerror}.") from None

    def answered(self, arrival: Any, answer: dict[str, Any]) -> None:
        """Keep an answer, before it is given."""
        self.entries.append({"arrival": arrival, "answer": answer})
        self._append(self.entries[-1], is_forced=True)

    def delivered(self, number: int) -> None:
        """Note that an answer was given."""
        self.num_delivered = number
        self._append({"delivered": number}, is_forced=False)


def begins_anew(stream: BinaryIO) -> bool:
    """Whether arrivals come from their beginning each time, as a file's do, and not from where they were."""
    return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)


def serve(
    policy: Policy, lines: Iterable[bytes], *, is_sampled: bool, seed: int | None, journal: str | None, from_start: bool
) -> Iterator[dict[str, Any]]:
    """Answer arrivals, a line each; what cannot be answered is said in one, and the episode stays as it was.

    The next line is read only once the answer to the one before has been taken. An arrival that says its number may
    come again, and is given the answer it had. From the start, arrivals whose answers were given are passed over.
    """
    chosen = (secrets.randbits(32) if seed is None else seed) if is_sampled else None
    kept = None if journal is None else Journal(journal, policy, chosen)
    episode, known = policy.begin(), [] if kept is None else kept.entries
    chosen = chosen if kept is None else kept.seed
    for entry in known:
        _decide(episode, entry["arrival"], chosen)
    place_in_episode = 0 if from_start else len(known)
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            arrival = _parsed(line)
            number = _number_of(arrival, place_in_episode + 1, episode.number + 1)
            if number > episode.number:
                answer = _decide(episode, arrival, chosen)
                if kept is not None:
                    kept.answered(arrival, answer)
            else:
                answer = _known_answer(arrival, known, number)
            place_in_episode = number
        except ArrivalError as error:
            yield {"line": place, "error": str(error)}
            continue
        if kept is None or number > kept.num_delivered or "number" in arrival:
            yield answer
        if kept is not None and number > kept.num_delivered:
            kept.delivered(number)


def _number_of(arrival: Any, expected: int, most: int) -> int:
    """Which arrival of the episode this is: as it says itself, or the one that is expected."""
    number = arrival.get("number", expected) if isinstance(arrival, dict) else expected
    if type(number) is not int or not 1 <= number <= most:
        raise ArrivalError(f"`number` must be at most {most}, that of the next arrival, got {number!r:.40}.")
    return number


def _known_answer(arrival: Any, known: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """The answer that an arrival was given before; it is never decided twice."""
    if len(known) < number or known[number - 1]["arrival"] != arrival:
        raise ArrivalError(f"arrival {number} was another one, and is answered.")
    return known[number - 1]["answer"]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ArrivalError("it is not JSON.") from None


def _decide(episode: Episode, arrival: Any, seed: int | None) -> dict[str, Any]:
    """Decide; the number that a sampled decision takes depends on the seed and the arrival's place alone."""
    uniform = None if seed is None else float(np.random.default_rng([seed, episode.number]).random())
    return episode.decide(arrival, uniform)
