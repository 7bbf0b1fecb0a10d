"""Random streams: keys for jax.random whose numbers cost a few multiplications, on CPUs as on GPUs."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Float, Int, UInt32

from rampup.types import Key, Keys

Word = UInt32[Array, "..."]


def _mix(word: Word) -> Word:
    """A permutation of 32-bit words in which every bit sways every other (constants: Wellons' search, bias 0.107)."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x21F0AAAD)
    word = (word ^ (word >> 15)) * jnp.uint32(0xD35A2D97)
    return word ^ (word >> 15)


def _hash(key: Sequence[Word] | UInt32[Array, "2 ..."], counter: Word) -> Word:
    """The number of a stream at a counter: two rounds of mixing, each started by one half of the key."""
    return _mix(_mix(counter + key[0]) + key[1])


# Numbers, the keys split off and the keys folded in are hashed under different keys: no stream meets its own children.
_SPLIT, _FOLD = 0x9E3779B9, 0x7F4A7C15


def _child(key: UInt32[Array, "2"], purpose: int, name: Word) -> UInt32[Array, "... 2"]:
    """The key that a stream has for a named child: both its words depend on both words of its parent's."""
    other = key[::-1] + jnp.uint32(purpose)
    return jnp.stack([_hash(key ^ jnp.uint32(purpose), name), _hash(other, name)], axis=-1)


def _seed(seed: Array) -> UInt32[Array, "2"]:
    low = seed.astype(jnp.uint32)
    high = (seed >> 32).astype(jnp.uint32) if seed.dtype.itemsize == 8 else jnp.zeros_like(low)
    return _child(jnp.stack([high, low]), 0, jnp.uint32(0))


def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "... 2"]:
    return _child(key, _SPLIT, _counters(shape))


def _fold_in(key: UInt32[Array, "2"], data: Array | int) -> UInt32[Array, "2"]:
    return _child(key, _FOLD, jnp.asarray(data).astype(jnp.uint32))


def _counters(shape: tuple[int, ...]) -> Word:
    """0, 1, 2, .. over an array; a stream has 2^32 of them."""
    strides = [1]
    for length in shape[:0:-1]:
        strides.append(strides[-1] * length)
    total = jnp.zeros(shape, jnp.uint32)
    for axis, stride in enumerate(reversed(strides[: len(shape)])):
        total = total + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride)
    return total


def _bits(key: UInt32[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> Array:
    return _bits_at((key[0], key[1]), bit_width, _counters(shape))


def _bits_at(key: Sequence[Word], bit_width: int, counters: Word) -> Array:
    if bit_width == 64:
        high, low = (_hash(key, 2 * counters + half).astype(jnp.uint64) for half in (0, 1))
        return (high << 32) | low
    return _hash(key, counters).astype({8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}[bit_width])


STREAM = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="rampup_stream", tag="rus"
)


def is_stream(keys: Keys) -> bool:
    """Whether keys are of this kind."""
    return jax.random.key_impl(keys) == STREAM


def bits_of_lanes(keys: Keys, bit_width: int, shape: tuple[int, ...]) -> Array:
    """The bits of a stream for every key, as jax.vmap gives them, with the keys as the last axis."""
    words = jax.random.key_data(keys).reshape(*(1 for _ in shape), -1, 2)
    return _bits_at((words[..., 0], words[..., 1]), bit_width, _counters(shape)[..., None])


def children(parent: Key, numbers: Int[Array, " child"]) -> Keys:
    """The keys of some numbers among those that jax.random.split makes of a stream's, however many it makes."""
    if not is_stream(parent):
        return jax.vmap(lambda number: jax.random.fold_in(parent, number))(numbers)
    words = _child(jax.random.key_data(parent), _SPLIT, numbers.astype(jnp.uint32))
    return jax.random.wrap_key_data(words, impl=STREAM)


def words_of(key: Key) -> UInt32[Array, "2"]:
    """Two words that key a stream: a stream's own, or two random ones of a key of another kind."""
    return jax.random.key_data(key) if is_stream(key) else jax.random.bits(key, (2,), jnp.uint32)


def uniform_at(words: Sequence[Word] | UInt32[Array, "2 ..."], counter: Word) -> Float[Array, "..."]:
    """What jax.random.uniform draws of a stream at a counter, in single precision."""
    one = jnp.uint32(0x3F800000)
    return jax.lax.bitcast_convert_type((_hash(words, counter) >> 9) | one, jnp.float32) - 1.0


def key(seed: int | Int[Array, ""]) -> Key:
    """The root key of a run; jax.random takes it like any other."""
    return jax.random.key(seed, impl=STREAM)
