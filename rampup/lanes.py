"""Many episodes in step, as jax.vmap plays them, but number by number and with the lanes as the last axis.

A program of one lane handles a few numbers at a time: what is seen, the probabilities of the actions, the state. Here
each of them is a vector over the lanes, or a single number where it is the same in all, as the clock. Then a step of
all lanes is plain arithmetic on vectors, which compilers fuse into few loops, and nothing is moved in memory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal

from rampup import streams

# Up to so many numbers are taken out of an array with the lanes as its last axis, and worked with one by one.
_FEW = 16
# Up to so many may come of them: the program has a line for each.
_MANY = 64


class Whole(NamedTuple):
    """An array with the lanes as its last axis."""

    array: Any


@partial(jax.tree_util.register_dataclass, data_fields=["numbers"], meta_fields=["shape"])
@dataclass(frozen=True, eq=False)
class Parts:
    """An array of few numbers, each of them a vector over the lanes or, the same in all of them, a scalar."""

    shape: tuple[int, ...]
    numbers: tuple[Any, ...]

    def grid(self) -> np.ndarray:
        """The numbers as an array of objects."""
        cells = np.empty(len(self.numbers), dtype=object)
        for place, number in enumerate(self.numbers):
            cells[place] = number
        return cells.reshape(self.shape)


Laned = Whole | Parts


def is_laned(value: Any) -> bool:
    """Whether a value differs between lanes; a plain array does not."""
    return isinstance(value, Whole | Parts)


def whole(value: Any, num_lanes: int) -> jax.Array:
    """A value as one array with the lanes as its last axis."""
    if isinstance(value, Whole):
        return value.array
    if not isinstance(value, Parts):
        value = jnp.asarray(value)
        return jnp.broadcast_to(value[..., None], (*value.shape, num_lanes))
    vectors = [jnp.broadcast_to(number, (num_lanes,)) for number in value.numbers]
    return jnp.stack(vectors).reshape(*value.shape, num_lanes) if value.shape else vectors[0]


def some_lanes(value: Any, start: Any, length: int) -> jax.Array:
    """A few neighbouring lanes of a value, as one array."""
    if isinstance(value, Whole):
        return jax.lax.dynamic_slice_in_dim(value.array, start, length, -1)
    if not isinstance(value, Parts):
        return whole(value, length)
    cut = [
        jax.lax.dynamic_slice_in_dim(number, start, length) if np.ndim(number) else number for number in value.numbers
    ]
    return whole(Parts(value.shape, tuple(cut)), length)


def over_lanes(function: Callable[..., Any], num_lanes: int, *arguments: Any) -> Any:
    """Apply a function of one lane to all of them; leaves that differ between lanes are `Whole` or `Parts`."""
    leaves, structure = jax.tree.flatten(arguments, is_leaf=is_laned)
    given = jax.tree.unflatten(structure, [_shape_of_one(leaf) for leaf in leaves])
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*given)
    return jax.tree.unflatten(jax.tree.structure(shape), _evaluate(closed.jaxpr, closed.consts, leaves, num_lanes))


def _shape_of_one(leaf: Any) -> Any:
    if isinstance(leaf, Whole):
        return jax.ShapeDtypeStruct(leaf.array.shape[:-1], leaf.array.dtype)
    if isinstance(leaf, Parts):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.numbers[0].dtype)
    return jax.typeof(leaf)


def settled(advance: Callable[[Any], Any], opening: Any, num_lanes: int) -> Any:
    """An opening whose leaves have lanes wherever `advance` ever gives them some, so that a loop can carry it."""
    while True:
        before, structure = jax.tree.flatten(opening, is_leaf=is_laned)
        after = jax.tree.leaves(jax.eval_shape(advance, opening), is_leaf=is_laned)
        grown = [_grown(one, other, num_lanes) for one, other in zip(before, after, strict=True)]
        if all(one is other for one, other in zip(before, grown, strict=True)):
            return opening
        opening = jax.tree.unflatten(structure, grown)


def _grown(value: Any, model: Any, num_lanes: int) -> Any:
    """A value in the form that a model of it has, if that has more lanes."""
    if isinstance(model, Whole) and not isinstance(value, Whole):
        return Whole(whole(value, num_lanes))
    if isinstance(model, Parts):
        own = value if isinstance(value, Parts) else _parts(value)
        if any(not one.ndim and other.ndim for one, other in zip(own.numbers, model.numbers, strict=True)):
            numbers = zip(own.numbers, model.numbers, strict=True)
            stretched = [jnp.broadcast_to(one, (num_lanes,)) if other.ndim else one for one, other in numbers]
            return Parts(own.shape, tuple(stretched))
        return own if value is not own else value
    return value


def _parts(value: Any) -> Parts:
    """A value of few numbers as these."""
    if isinstance(value, Parts):
        return value
    array = value.array if isinstance(value, Whole) else jnp.asarray(value)
    shape = array.shape[:-1] if isinstance(value, Whole) else array.shape
    cells = [array[place] for place in np.ndindex(*shape)]
    return Parts(tuple(shape), tuple(jnp.asarray(cell) for cell in cells))


def _evaluate(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any], num_lanes: int) -> list[Any]:
    """Run a program operation by operation; those that meet no lanes are done once for all."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def value(one: Any) -> Any:
        return one.val if isinstance(one, Literal) else known[one]

    for equation in jaxpr.eqns:
        operands = [value(one) for one in equation.invars]
        has_inner = equation.primitive.name in INNER
        is_apart = has_inner or any(map(is_laned, operands))
        found = _apply(equation, operands, num_lanes) if is_apart else _bind(equation, operands)
        known.update(zip(equation.outvars, found, strict=True))
    return [value(one) for one in jaxpr.outvars]


def _bind(equation: Any, operands: Sequence[Any]) -> Sequence[Any]:
    found = equation.primitive.bind(*operands, **equation.params)
    return found if equation.primitive.multiple_results else [found]


def _apply(equation: Any, operands: Sequence[Any], num_lanes: int) -> Sequence[Any]:
    """One operation on operands of which some have lanes."""
    name, given = equation.primitive.name, equation.params
    if name in INNER:
        inner = given[INNER[name]]
        return _evaluate(inner.jaxpr, inner.consts, operands, num_lanes)
    if name == "random_bits" and equation.invars[0].aval.shape == ():
        keys = whole(operands[0], num_lanes)
        if streams.is_stream(keys):
            return [Whole(streams.bits_of_lanes(keys, given["bit_width"], given["shape"]))]
    if name == "dynamic_slice" and isinstance(operands[0], Whole) and not any(map(is_laned, operands[1:])):
        return [_laned(_slice_at(operands[0].array, operands[1:], given["slice_sizes"], num_lanes))]
    shapes = [one.aval.shape for one in (*equation.invars, *equation.outvars)]
    if name == "bitcast_convert_type" and shapes[0] != shapes[1]:
        return _by_vmap(equation, operands, num_lanes)
    sizes = [math.prod(shape) for shape in shapes]
    is_whole = any(isinstance(one, Whole) for one in operands)
    if not is_whole and min(sizes) > 0 and max(sizes) <= _MANY:
        found = number_by_number(equation, [_parts(one) for one in operands], num_lanes)
        if found is not None:
            return [_of_numbers(one.aval.shape, numbers) for one, numbers in zip(equation.outvars, found, strict=True)]
    changes = _one_axis_more(name, given, num_lanes)
    if changes is None:
        return _by_vmap(equation, operands, num_lanes)
    shape = equation.outvars[0].aval.shape if name in _NUMBERWISE else None
    arrays = [_stretched(whole(one, num_lanes), shape) for one in operands]
    found = equation.primitive.bind(*arrays, **(given | changes))
    # Only what takes numbers out of an array makes few of many.
    form = _laned if name in _FOLDS or name in ("slice", "squeeze", "unstack") else Whole
    return [form(one) for one in (found if equation.primitive.multiple_results else [found])]


def _one_axis_more(name: str, given: dict[str, Any], num_lanes: int) -> dict[str, Any] | None:
    """The parameters of an operation that are others when its operands have one axis more; None if it is not known."""
    if name in _NUMBERWISE or name in _FOLDS or name in _ALONG_AXES:
        return {}
    if name == "broadcast_in_dim":
        shape, places = given["shape"], given["broadcast_dimensions"]
        return {"shape": (*shape, num_lanes), "broadcast_dimensions": (*places, len(shape))}
    if name == "reshape" and given["dimensions"] is None:
        return {"new_sizes": (*given["new_sizes"], num_lanes)}
    if name == "slice":
        ends = {"start_indices": (*given["start_indices"], 0), "limit_indices": (*given["limit_indices"], num_lanes)}
        return ends | {"strides": given["strides"] and (*given["strides"], 1)}
    return None


def _stretched(array: jax.Array, shape: tuple[int, ...] | None) -> jax.Array:
    """An array of all lanes, stretched to the shape that all operands of an operation number by number must have."""
    if shape is None:
        return array
    missing = len(shape) + 1 - array.ndim
    return jnp.broadcast_to(array.reshape((1,) * missing + array.shape), (*shape, array.shape[-1]))


def _of_numbers(shape: tuple[int, ...], numbers: tuple[Any, ...]) -> Any:
    """An array of few numbers; a plain one if all of them are the same in all lanes."""
    if any(np.ndim(number) for number in numbers):
        return Parts(shape, numbers)
    return jnp.stack([jnp.asarray(number) for number in numbers]).reshape(shape) if numbers else jnp.zeros(shape)


def _laned(array: jax.Array) -> Laned:
    """An array whose last axis is the lanes, in the form for its size."""
    return _parts(Whole(array)) if 0 < math.prod(array.shape[:-1]) <= _FEW else Whole(array)


def _slice_at(array: jax.Array, starts: Sequence[Any], sizes: Sequence[int], num_lanes: int) -> jax.Array:
    start = jnp.zeros((), jnp.result_type(*starts)) if starts else 0
    return jax.lax.dynamic_slice(array, [*starts, start], (*sizes, num_lanes))


def _by_vmap(equation: Any, operands: Sequence[Any], num_lanes: int) -> list[Any]:
    """An operation on arrays kept whole, or one that has no rule here."""
    axes = [0 if is_laned(one) else None for one in operands]
    arrays = [jnp.moveaxis(whole(one, num_lanes), -1, 0) if is_laned(one) else one for one in operands]
    found = jax.vmap(lambda *given: tuple(_bind(equation, given)), in_axes=axes)(*arrays)
    return [_laned(jnp.moveaxis(one, 0, -1)) for one in found]


# Programs inside the program, and under which name they are kept.
INNER = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
# fmt: off
_NUMBERWISE = frozenset([
    "abs", "add", "and", "bitcast_convert_type", "clamp", "ceil", "convert_element_type", "copy", "cos", "div", "eq",
    "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt",
    "max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "round", "rsqrt", "select_n", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sqrt", "square", "stop_gradient", "sub", "tanh",
    "xor",
])
# fmt: on
# Operations along axes that they name, the last of which the lanes never are.
_ALONG_AXES = frozenset(
    [
        "argmax",
        "argmin",
        "concatenate",
        "cummax",
        "cumprod",
        "cumsum",
        "expand_dims",
        "rev",
        "split",
        "squeeze",
        "stack",
        "unstack",
    ]
)
_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce_sum": jnp.add,
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
    "reduce_prod": jnp.multiply,
    "reduce_and": jnp.bitwise_and,
    "reduce_or": jnp.bitwise_or,
}
# How an operation that only moves numbers moves them.
_MOVES: dict[str, Callable[[dict[str, Any], list[np.ndarray]], Any]] = {
    "broadcast_in_dim": lambda given, cells: _spread(cells[0], given["shape"], given["broadcast_dimensions"]),
    "concatenate": lambda given, cells: np.concatenate(cells, axis=given["dimension"]),
    "expand_dims": lambda given, cells: np.expand_dims(cells[0], given["dimensions"]),
    "pad": lambda given, cells: _padded(cells[0], given["padding_config"], cells[1][()]),
    "reshape": lambda given, cells: cells[0].reshape(given["new_sizes"]),
    "rev": lambda given, cells: np.flip(cells[0], given["dimensions"]),
    "slice": lambda given, cells: cells[0][_slices(given)],
    "squeeze": lambda given, cells: np.squeeze(cells[0], given["dimensions"]),
    "stack": lambda given, cells: np.stack(cells, axis=given["axis"]),
    "transpose": lambda given, cells: np.transpose(cells[0], given["permutation"]),
}


def _spread(cells: np.ndarray, shape: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
    own = [1] * len(shape)
    for length, place in zip(cells.shape, places, strict=True):
        own[place] = length
    return np.broadcast_to(cells.reshape(own), shape)


def _padded(cells: np.ndarray, config: Sequence[tuple[int, int, int]], number: Any) -> np.ndarray:
    """Cells with others around them; neither between them nor fewer than before."""
    padded = np.empty([low + length + high for (low, high, _), length in zip(config, cells.shape, strict=True)], object)
    for place in np.ndindex(*padded.shape):
        padded[place] = number
    padded[tuple(slice(low, low + length) for (low, _, _), length in zip(config, cells.shape, strict=True))] = cells
    return padded


def _slices(given: dict[str, Any]) -> tuple[slice, ...]:
    strides = given["strides"] or [1] * len(given["start_indices"])
    return tuple(map(slice, given["start_indices"], given["limit_indices"], strides))


def number_by_number(equation: Any, operands: list[Parts], num_lanes: int) -> list[tuple[Any, ...]] | None:
    """The numbers of the results of an operation on a few numbers; nothing if there is no rule for it."""
    name, given = equation.primitive.name, equation.params
    cells = [one.grid() for one in operands]
    if name == "pad" and any(low < 0 or high < 0 or inner for low, high, inner in given["padding_config"]):
        return None
    if name in _MOVES:
        return [tuple(_MOVES[name](given, cells).ravel())]
    if name == "unstack":
        along = np.moveaxis(cells[0], given["axis"], 0)
        return [tuple(along[place : place + 1].ravel()) for place in range(len(along))]
    if name in _FOLDS:
        axes = given["axes"]
        return [tuple(_folded(_FOLDS[name], cells[0], axes).ravel())]
    if name in _NUMBERWISE:
        shape = equation.outvars[0].aval.shape
        spread = [np.broadcast_to(one, shape).ravel() for one in cells]
        return [tuple(_numberwise(equation, numbers, num_lanes) for numbers in zip(*spread, strict=True))]
    return None


def _folded(fold: Callable[[Any, Any], Any], cells: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """A sum, or another fold, along some axes, written out."""
    kept = [axis for axis in range(cells.ndim) if axis not in axes]
    rows = np.transpose(cells, [*kept, *axes]).reshape(*(cells.shape[axis] for axis in kept), -1)
    result = np.empty(rows.shape[:-1], dtype=object)
    for place in np.ndindex(*rows.shape[:-1]):
        result[place] = reduce(fold, rows[place])
    return result


def _numberwise(equation: Any, numbers: Sequence[Any], num_lanes: int) -> Any:
    """One operation on numbers, all of them the same in all lanes, or all vectors."""
    if any(np.ndim(number) for number in numbers):
        numbers = [jnp.broadcast_to(number, (num_lanes,)) for number in numbers]
    return equation.primitive.bind(*numbers, **equation.params)


def for_each(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function along the first axis: all at once where that fills the chip, one by one where one does."""
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda given: function(*given), arguments)
    return jax.vmap(function)(*arguments)


def in_single_precision(tree: Any) -> Any:
    """The same thing with its real numbers in 32 bits: what a simulation needs, at twice the speed."""
    return jax.tree.map(
        lambda leaf: leaf.astype(jnp.float32) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree
    )
