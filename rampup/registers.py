"""Loops over episodes as one kernel: a block of lanes is played to its end with every number in a register.

Compilers make a loop of a program of many lanes out of launches, each of which reads and writes all lanes. Here the
program of one lane is run number by number, as in `lanes`, but inside a kernel: what a lane carries from step to step
stays where it is worked with, and only what it reads at a step comes from memory.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal

from rampup import kernels
from rampup.lanes import INNER, Parts, Whole, number_by_number, settled

BLOCK = 128
"""How many lanes a block of threads plays: two a thread, which share what is the same in all lanes."""
NUM_WARPS = 2


class NotInRegistersError(Exception):
    """A program has an operation for which a kernel has no rule."""


@dataclass(frozen=True, eq=False)
class _Memory:
    """An array that is read number by number; the lanes, if it has any, are its last axis."""

    ref: Any
    shape: tuple[int, ...]
    """Of one lane."""
    dtype: Any
    has_lanes: bool

    def at(self, place: Sequence[Any]) -> Any:
        if self.has_lanes and any(np.ndim(at) for at in place):
            raise NotInRegistersError("a look-up at a place of its own for each lane, in what is its own as well")
        index = (*place, slice(None)) if self.has_lanes else tuple(place)
        # An array of one number has an axis all the same.
        return self.ref[index or (0,)]

    def parts(self) -> Parts:
        return Parts(self.shape, tuple(self.at(place) for place in np.ndindex(*self.shape)))


def filled(num_lanes: int) -> int:
    """How many lanes there are in as many blocks as it takes."""
    return -(-num_lanes // BLOCK) * BLOCK


class Loop:
    """A loop of one lane: begin(constants, lane) -> carried; advance(constants, lane, step, carried) -> carried."""

    def __init__(self, begin: Callable[[Any, Any], Any], advance: Callable[[Any, Any, Any, Any], Any]):
        self.begin, self.advance = begin, advance
        self._carried: dict[Hashable, Any] = {}

    def has_rules(self, constants: Any, lane: Any) -> bool:
        """Whether a kernel can play it, given what a lane looks like."""
        block = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*leaf.shape, BLOCK), leaf.dtype), lane)
        try:
            self._carried_by(_Blocks.of(constants, block))
        except NotInRegistersError:
            return False
        return True

    def _carried_by(self, blocks: "_Blocks") -> Any:
        """What is carried from step to step; to find it takes as long as to trace the program a few times."""
        if blocks.form not in self._carried:
            self._carried[blocks.form] = blocks.carried(self)
        return self._carried[blocks.form]

    def play(self, num_steps: int, constants: Any, lanes: Any) -> Any:
        """Play all lanes to the end, and return what they carry then: arrays with the lanes as their last axis.

        Args:
            constants: arrays that are the same in all lanes.
            lanes: arrays with the lanes as their last axis, a multiple of `BLOCK` of them.
        """
        from jax.experimental import pallas

        blocks = _Blocks.of(constants, lanes)
        model = self._carried_by(blocks)
        arrays = [jnp.atleast_1d(leaf) for leaf in blocks.leaves]

        def kernel(*places):
            given, found = places[: len(arrays)], places[len(arrays) :]
            stretched = lambda number, like: jnp.broadcast_to(number, like.shape)
            opening = jax.tree.map(stretched, blocks.first(self, given), model)
            following = lambda step, carried: blocks.following(self, given, step.astype(jnp.int32), carried)
            last = jax.lax.fori_loop(0, num_steps, following, opening)
            for place, part in zip(found, jax.tree.leaves(last, is_leaf=_is_parts), strict=True):
                for at, number in zip(np.ndindex(*part.shape), part.numbers, strict=True):
                    place[(*at, slice(None))] = jnp.broadcast_to(number, (BLOCK,)).astype(place.dtype)

        def block_of(array: Any, has_lanes: bool) -> Any:
            if not has_lanes:
                return pallas.BlockSpec(array.shape, lambda index: (0,) * len(array.shape))
            before = array.shape[:-1]
            return pallas.BlockSpec((*before, BLOCK), lambda index: (*[0] * len(before), index))

        num_lanes = arrays[-1].shape[-1]
        parts = jax.tree.leaves(model, is_leaf=_is_parts)
        shapes = [jax.ShapeDtypeStruct((*one.shape, num_lanes), one.numbers[0].dtype) for one in parts]
        found = kernels.launch(
            kernel,
            arrays,
            [block_of(array, at >= blocks.num_constants) for at, array in enumerate(arrays)],
            shapes,
            [block_of(shape, True) for shape in shapes],
            num_blocks=num_lanes // BLOCK,
            num_warps=NUM_WARPS,
        )
        whole = [Whole(array.astype(one.numbers[0].dtype)) for array, one in zip(found, parts, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(model, is_leaf=_is_parts), whole)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Everything that a kernel reads, in order: what is the same in all lanes, then what is not."""

    leaves: list[Any]
    structure: Any
    num_constants: int

    @classmethod
    def of(cls, constants: Any, lanes: Any) -> "_Blocks":
        leaves, structure = jax.tree.flatten((constants, lanes))
        return cls(leaves, structure, len(jax.tree.leaves(constants)))

    def read(self, places: Sequence[Any]) -> tuple[Any, Any]:
        """The same as a loop takes it, where it lies in memory."""
        own = [
            _Memory(
                place, leaf.shape[:-1] if at >= self.num_constants else leaf.shape, leaf.dtype, at >= self.num_constants
            )
            for at, (place, leaf) in enumerate(zip(places, self.leaves, strict=True))
        ]
        return jax.tree.unflatten(self.structure, own)

    def first(self, loop: Loop, places: Sequence[Any]) -> Any:
        return _run(loop.begin, *self.read(places))

    def following(self, loop: Loop, places: Sequence[Any], step: Any, carried: Any) -> Any:
        return _run(loop.advance, *self.read(places), Parts((), (step,)), carried)

    def carried(self, loop: Loop) -> Any:
        """What a block of lanes carries from step to step, and which of it differs between lanes."""

        def opening(places: Sequence[Any]) -> Any:
            advance = lambda carried: self.following(loop, places, jnp.zeros((), jnp.int32), carried)
            return settled(advance, self.first(loop, places), BLOCK)

        return jax.eval_shape(opening, [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.shapes])

    @property
    def shapes(self) -> tuple[tuple[tuple[int, ...], Any], ...]:
        """Of every array as a block reads it, and its type."""
        return tuple(
            ((*leaf.shape[:-1], BLOCK) if at >= self.num_constants else leaf.shape or (1,), leaf.dtype)
            for at, leaf in enumerate(self.leaves)
        )

    @property
    def form(self) -> Hashable:
        """All that the program depends on."""
        return self.structure, self.num_constants, self.shapes


def _is_parts(value: Any) -> bool:
    return isinstance(value, Parts)


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function of one lane to a block of them; all that differs between lanes is parts or lies in memory."""
    leaves, structure = jax.tree.flatten(arguments, is_leaf=_is_parts)
    given = [
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype if isinstance(leaf, _Memory) else leaf.numbers[0].dtype)
        for leaf in leaves
    ]
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, given))
    found = _evaluate(closed.jaxpr, [_constant(one) for one in closed.consts], leaves)
    return jax.tree.unflatten(jax.tree.structure(shape), [_parts(one) for one in found])


def _constant(value: Any) -> Parts:
    """A number or an array that is known when compiling."""
    try:
        array = np.asarray(value)
    except jax.errors.TracerArrayConversionError:
        raise NotInRegistersError("an array that is not known when compiling") from None
    return Parts(array.shape, tuple(array[place] for place in np.ndindex(*array.shape)))


def _parts(value: Parts | _Memory) -> Parts:
    return value.parts() if isinstance(value, _Memory) else value


def _evaluate(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def value(one: Any) -> Any:
        return _constant(one.val) if isinstance(one, Literal) else known[one]

    for equation in jaxpr.eqns:
        if any(map(_is_empty, (*equation.invars, *equation.outvars))):
            raise NotInRegistersError("an array of no numbers")
        found = _apply(equation, [value(one) for one in equation.invars])
        known.update(zip(equation.outvars, found, strict=True))
    return [value(one) for one in jaxpr.outvars]


def _is_empty(one: Any) -> bool:
    return 0 in one.aval.shape


def _apply(equation: Any, operands: list[Parts | _Memory]) -> Sequence[Any]:
    name, given = equation.primitive.name, equation.params
    if name in INNER:
        inner = given[INNER[name]]
        return _evaluate(inner.jaxpr, [_constant(one) for one in inner.consts], operands)
    if name == "dynamic_slice" and isinstance(operands[0], _Memory):
        return [_slice_at(operands[0], [_parts(one).numbers[0] for one in operands[1:]], given["slice_sizes"])]
    parts = [_parts(one) for one in operands]
    if all(isinstance(number, np.generic) for one in parts for number in one.numbers):
        return _known(equation, parts)
    found = number_by_number(equation, parts, BLOCK)
    if found is None:
        raise NotInRegistersError(name)
    return [Parts(one.aval.shape, numbers) for one, numbers in zip(equation.outvars, found, strict=True)]


def _known(equation: Any, operands: list[Parts]) -> list[Parts]:
    """What is known when compiling is computed then."""
    arrays = [np.array(one.numbers, one.numbers[0].dtype).reshape(one.shape) for one in operands]
    with jax.ensure_compile_time_eval():
        found = equation.primitive.bind(*map(jnp.asarray, arrays), **equation.params)
        return [_constant(one) for one in (found if equation.primitive.multiple_results else [found])]


def _slice_at(memory: _Memory, starts: Sequence[Any], sizes: Sequence[int]) -> Parts:
    """The numbers of a slice; as everywhere in JAX, one that would end outside is moved inside."""
    inside = [
        jnp.clip(start, 0, length - size) for start, length, size in zip(starts, memory.shape, sizes, strict=True)
    ]
    places = ([start + at for start, at in zip(inside, place, strict=True)] for place in np.ndindex(*sizes))
    return Parts(tuple(sizes), tuple(memory.at(place) for place in places))
