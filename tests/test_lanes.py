"""Lanes played in step: every operation, every form of operand, and whole episodes, against jax.vmap."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from finite_problem import random_finite_problem
from hypothesis import given, settings
from hypothesis import strategies as st

import rampup
from rampup import lanes, streams
from rampup.episodes import play, play_many
from rampup.exact.finite import FiniteLMDP
from rampup.exact.playable import FiniteProblem
from rampup.lanes import Parts, Whole, in_single_precision, is_laned, over_lanes, settled, some_lanes, whole

LANES = 5


def drawn(rng, shape, kind="real"):
    """An array of numbers between 0.1 and 2, or of whole numbers, or of flags."""
    if kind == "real":
        return jnp.asarray(rng.uniform(0.1, 2.0, size=shape))
    return jnp.asarray(rng.integers(0, 2, size=shape) > 0) if kind == "flag" else jnp.asarray(rng.integers(1, 9, shape))


def as_form(array, form, rng):
    """An array with the lanes as its last axis, as an argument of `over_lanes`, and what of it vmap is given."""
    if form == "plain":
        return array[..., 0], array[..., 0]
    if form == "whole":
        return Whole(array), array
    # In parts, every other number is the same in all lanes; where there is but one, it is not.
    shape = array.shape[:-1]
    is_common = rng.permutation(int(np.prod(shape))) % 2 == 1
    common = jnp.broadcast_to(array[..., :1], array.shape)
    array = jnp.where(jnp.asarray(is_common.reshape(*shape, 1)), common, array)
    cells = zip(np.ndindex(*shape), is_common, strict=True)
    return Parts(shape, tuple(array[place][0] if is_same else array[place] for place, is_same in cells)), array


def assert_same(found, wanted, name=""):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype, name
    assert found.shape == wanted.shape, name
    if found.dtype.kind == "f":
        # A function of a number may be rounded otherwise in a loop over another number of them.
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-15, err_msg=name)
    else:
        assert np.array_equal(found, wanted), name


def assert_is_vmap(function, arguments, forms, seed=0):
    """A function of one lane, applied to all of them, gives what vmap gives, each of its results with its own name."""
    rng = np.random.default_rng(seed)
    given, plain = zip(*(as_form(one, form, rng) for one, form in zip(arguments, forms, strict=True)), strict=True)
    axes = [None if form == "plain" else -1 for form in forms]
    found = jax.jit(
        lambda *given: jax.tree.map(
            partial(whole, num_lanes=LANES), over_lanes(function, LANES, *given), is_leaf=is_laned
        )
    )(*given)
    wanted = jax.jit(jax.vmap(function, in_axes=axes, out_axes=-1, axis_size=LANES))(*plain)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(wanted)]
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for name, one, other in zip(paths, jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_same(one, other, name)


# Shapes of no axis, of few numbers, of more than few, and of more than the program has lines for.
SHAPES = [(), (3,), (2, 9), (5, 20)]
PAIRS = [("whole", "whole"), ("parts", "parts"), ("whole", "plain"), ("plain", "parts"), ("parts", "whole")]

REALS = {
    "abs": lambda x, y: jnp.abs(x - y),
    "add": lambda x, y: x + y,
    "bitcast_convert_type": lambda x, y: jax.lax.bitcast_convert_type(x - y, jnp.int64),
    "ceil": lambda x, y: jnp.ceil(x * y),
    "clamp": lambda x, y: jax.lax.clamp(y / 2, x, y),
    "convert_element_type": lambda x, y: (x * y * 10).astype(jnp.int32),
    "copy": lambda x, y: jax.lax.copy_p.bind(x) + y,
    "cos": lambda x, y: jnp.cos(x * y),
    "div": lambda x, y: x / y,
    "eq": lambda x, y: x == y,
    "exp": lambda x, y: jnp.exp(x - y),
    "exp2": lambda x, y: jnp.exp2(x - y),
    "expm1": lambda x, y: jnp.expm1(x - y),
    "floor": lambda x, y: jnp.floor(x * y),
    "ge": lambda x, y: x >= y,
    "gt": lambda x, y: x > y,
    "integer_pow": lambda x, y: (x - y) ** 5,
    "is_finite": lambda x, y: jnp.isfinite(jnp.where(x > y, x, jnp.inf)),
    "le": lambda x, y: x <= y,
    "log": lambda x, y: jnp.log(x * y),
    "log1p": lambda x, y: jnp.log1p(x * y),
    "logistic": lambda x, y: jax.nn.sigmoid(x - y),
    "lt": lambda x, y: x < y,
    "max": lambda x, y: jnp.maximum(x, y),
    "min": lambda x, y: jnp.minimum(x, y),
    "mul": lambda x, y: x * y,
    "ne": lambda x, y: x != y,
    "neg": lambda x, y: -(x + y),
    "pow": lambda x, y: x**y,
    "rem": lambda x, y: jax.lax.rem(x, y),
    "round": lambda x, y: jnp.round(x * y),
    "rsqrt": lambda x, y: jax.lax.rsqrt(x * y),
    "select_n": lambda x, y: jnp.where(x > y, x, -y),
    "select_n by one flag": lambda x, y: jax.lax.select_n(jnp.sum(x) > jnp.sum(y), x, y),
    "sign": lambda x, y: jnp.sign(x - y),
    "sin": lambda x, y: jnp.sin(x * y),
    "sqrt": lambda x, y: jnp.sqrt(x * y),
    "square": lambda x, y: jnp.square(x - y),
    "stop_gradient": lambda x, y: jax.lax.stop_gradient(x) - y,
    "sub": lambda x, y: x - y,
    "tanh": lambda x, y: jnp.tanh(x - y),
    # Operations without a rule of their own.
    "erf": lambda x, y: jax.scipy.special.erf(x - y),
    "next after": lambda x, y: jnp.nextafter(x, y),
    "a scalar": lambda x, y: x * 2.0 + 1.0 - y,
    "a function of both inside": lambda x, y: jax.jit(lambda a, b: a * b + a)(x, y),
    "custom_jvp_call": lambda x, y: jax.nn.relu(x - y),
    "custom_vjp_call": lambda x, y: with_own_gradient(x - y),
    "checkpoint": lambda x, y: jax.checkpoint(lambda a, b: jnp.sin(a) * b)(x, y),
}
WHOLES = {
    "and": lambda i, j: i & j,
    "or": lambda i, j: i | j,
    "xor": lambda i, j: i ^ j,
    "not": lambda i, j: ~(i + j),
    "shift_left": lambda i, j: i << j,
    "shift_right_arithmetic": lambda i, j: (i - 5) >> j,
    "shift_right_logical": lambda i, j: jax.lax.shift_right_logical(i * 1000, j),
    "rem of integers": lambda i, j: i % j,
    "div of integers": lambda i, j: i // j,
    "to flags": lambda i, j: (i > 4) & ~(j > 4),
    "xor of flags": lambda i, j: (i > 4) ^ (j > 4),
    "to reals": lambda i, j: i.astype(float) / j.astype(float),
    "to fewer bits": lambda i, j: (i * j * 100).astype(jnp.int8),
    "population_count": lambda i, j: jax.lax.population_count(i * j),
}


@jax.custom_vjp
def with_own_gradient(x):
    return 3.0 * x


with_own_gradient.defvjp(lambda x: (3.0 * x, None), lambda _, gradient: (3.0 * gradient,))


def all_of(table):
    return lambda *given: {name: function(*given) for name, function in table.items()}


@pytest.mark.parametrize("forms", PAIRS, ids="-".join)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_operations_number_by_number(shape, forms):
    size, reals = np.prod(shape), REALS
    forms = ["whole" if form == "parts" and size > 64 else form for form in forms]
    if "parts" in forms and size > 3:
        # Every number of parts is a line of the program: some operations stand for all.
        reals = {name: REALS[name] for name in sorted(REALS)[::4]}
    rng = np.random.default_rng(0)
    assert_is_vmap(all_of(reals), [drawn(rng, (*shape, LANES)) for _ in range(2)], forms)
    assert_is_vmap(all_of(WHOLES), [drawn(rng, (*shape, LANES), "whole") for _ in range(2)], forms)


SEVEN = np.asarray(7.0)
# Of an array of three axes.
ALONG = {
    "argmax": lambda x: jnp.argmax(x, axis=1),
    "argmin": lambda x: jnp.argmin(x, axis=2),
    "argmax of all": jnp.argmax,
    "broadcast_in_dim": lambda x: jnp.broadcast_to(x[:, None, 0, :, None], (x.shape[0], 2, x.shape[2], 3)),
    "concatenate": lambda x: jnp.concatenate([x, x[:, :1]], axis=1),
    "concatenate with a constant": lambda x: jnp.concatenate([x, jnp.ones_like(x[:1])], axis=0),
    "cummax": lambda x: jax.lax.cummax(x, axis=1),
    "cumprod": lambda x: jnp.cumprod(x, axis=0),
    "cumsum": lambda x: jnp.cumsum(x, axis=2),
    "cumsum backwards": lambda x: jax.lax.cumsum(x, axis=2, reverse=True),
    "cummin, which has no rule": lambda x: jax.lax.cummin(x, axis=1),
    "cumlogsumexp, which has none": lambda x: jax.lax.cumlogsumexp(x, axis=1),
    "pad": lambda x: jnp.pad(x, ((1, 2), (0, 1), (3, 0)), constant_values=7.0),
    "pad with less": lambda x: jax.lax.pad(x, SEVEN, ((-1, 1, 0), (0, -1, 0), (0, 0, 0))),
    "pad in between": lambda x: jax.lax.pad(x, SEVEN, ((0, 0, 1), (1, 0, 2), (0, 0, 0))),
    "pad with less in between": lambda x: jax.lax.pad(x, SEVEN, ((-1, 0, 2), (0, -2, 1), (1, 1, 0))),
    "pad with a number of the lane": lambda x: jax.lax.pad(x, x[0, 0, 0], ((1, 1, 0), (0, 0, 0), (0, 2, 0))),
    "reduce_and": lambda x: jnp.all(x > 0.3, axis=1),
    "reduce_max": lambda x: jnp.max(x, axis=(0, 2)),
    "reduce_min": lambda x: jnp.min(x, axis=1),
    "reduce_or": lambda x: jnp.any(x > 1.8, axis=(1, 2)),
    "reduce_prod": lambda x: jnp.prod(x, axis=2),
    "reduce_sum": lambda x: jnp.sum(x, axis=0),
    "reduce_sum of all": jnp.sum,
    "reduce_sum of integers": lambda x: jnp.sum(jnp.round(x * 9).astype(int), axis=1),
    "reduce_max of integers": lambda x: jnp.max(jnp.round(x * 9).astype(int), axis=1),
    "reduce_xor, which has none": lambda x: jax.lax.reduce_xor(jnp.round(x * 9).astype(int), (1,)),
    "reshape": lambda x: x.reshape(x.shape[0] * x.shape[1], 1, x.shape[2]),
    "ravel": jnp.ravel,
    "rev": lambda x: jnp.flip(x, (0, 2)),
    "slice": lambda x: x[1:, :2, -1:],
    "slice with strides": lambda x: x[::2, ::-1, 1::2],
    "one number": lambda x: x[1, 0, 1],
    "split": lambda x: jnp.split(x, [1], axis=0),
    "squeeze": lambda x: jnp.squeeze(x[:, :1], 1),
    "unstack": lambda x: jnp.stack([2 * y for y in x], axis=-1),
    "stack": lambda x: jnp.stack([x[0], x[1], -x[1]], axis=1),
    "transpose": lambda x: jnp.transpose(x, (2, 0, 1)),
    "dot_general": lambda x: x[0] @ x[1].T,
    "einsum": lambda x: jnp.einsum("abc,adc->bd", x, x),
    "sort": lambda x: jnp.sort(x, axis=1),
    "argsort": lambda x: jnp.argsort(x, axis=0),
    "top_k": lambda x: jax.lax.top_k(x, 2),
    "mean and spread": lambda x: (x.mean(axis=0), x.std(axis=1)),
    "softmax": lambda x: jax.nn.softmax(x, axis=1),
    "one_hot": lambda x: jax.nn.one_hot(jnp.argmax(x[0], axis=0), x.shape[1], dtype=float),
    "scan": lambda x: jax.lax.scan(lambda total, row: (total + row, total * row), jnp.zeros_like(x[0]), x),
    "while": lambda x: jax.lax.while_loop(lambda y: y[0] < 20.0, lambda y: y * 2 + x[1, 1, 0], x[0, 0]),
    "cond": lambda x: jax.lax.cond(x[0, 0, 0] > 1.0, lambda: jnp.sin(x), lambda: x * 2),
    "cond by a common flag": lambda x: jax.lax.cond(jnp.ones(()) > 0, jnp.sin, jnp.cos, x),
    "switch": lambda x: jax.lax.switch(jnp.argmax(x[0, 0]), [jnp.sin, jnp.cos, jnp.tan], x),
    "map": lambda x: jax.lax.map(lambda row: row.sum(axis=0), x),
    "vmap": lambda x: jax.vmap(lambda row: row @ row.T)(x),
    "gradient": lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(y) ** 2 * jnp.log(y)))(x),
    "update": lambda x: x.at[0, 1].set(5.0).at[:, 0].add(1.0),
    "scatter": lambda x: jnp.zeros(4).at[(x[0, :, 0] * 1.9).astype(int)].add(x[0, :, 1]),
    "interpolate": lambda x: jnp.interp(x[0, 0, 0], jnp.asarray([0.0, 1.0, 3.0]), jnp.asarray([1.0, 5.0, -1.0])),
    "solve": lambda x: jnp.linalg.solve(jnp.eye(2) * 3 + x[0, :2, :2], x[1, :2, :1]),
}
# Fewer than the thresholds, between them, and above.
CUBES = [(2, 3, 2), (2, 4, 6), (3, 5, 7)]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("form", ["whole", "parts"])
@pytest.mark.parametrize("shape", CUBES, ids=str)
def test_operations_along_axes(shape, form):
    if form == "parts" and np.prod(shape) > 64:
        form = "whole"
    assert_is_vmap(all_of(ALONG), [drawn(np.random.default_rng(1), (*shape, LANES))], [form])


LOOKED_UP = {
    "one": lambda x, i: x[i[0]],
    "two": lambda x, i: x[i[0] % 2, i[1] % 3],
    "rows": lambda x, i: jax.lax.dynamic_slice_in_dim(x, i[0] % 2, 1, 0),
    "columns": lambda x, i: jax.lax.dynamic_slice_in_dim(x, i[1], 2, 1),
    "a block": lambda x, i: jax.lax.dynamic_slice(x, (i[0], i[1]), (1, 2)),
    "beyond the end": lambda x, i: jax.lax.dynamic_slice(x, (i[0] + 50, i[1] - 50), (1, 2)),
    "many": lambda x, i: jnp.take(x, i % 3, axis=1),
    "along": lambda x, i: jnp.take_along_axis(x, (i % 3)[:, None], axis=1),
    "written": lambda x, i: jax.lax.dynamic_update_slice(x, -x[:1, :2], (i[0], i[1])),
    "set": lambda x, i: x.at[i[0] % 2, i[1] % 3].set(9.0),
}


@pytest.mark.parametrize("forms", [*PAIRS, ("parts", "plain"), ("plain", "whole")], ids="-".join)
@pytest.mark.parametrize("shape", [(2, 3), (2, 100)], ids=str)
def test_looking_up_at_a_common_and_at_the_lanes_own_place(shape, forms):
    rng = np.random.default_rng(2)
    forms = ["whole" if forms[0] == "parts" and np.prod(shape) > 64 else forms[0], forms[1]]
    assert_is_vmap(all_of(LOOKED_UP), [drawn(rng, (*shape, LANES)), drawn(rng, (2, LANES), "whole")], forms)


def test_operands_of_every_form_at_once():
    rng = np.random.default_rng(3)
    table = drawn(rng, (4, 30, LANES))

    def program(table, row, flag, number, place):
        picked = jnp.where(flag, table[place], row * number)
        best = jnp.argmax(picked)
        return picked, best, jnp.cumsum(picked)[best], (picked > number) & flag, row.sum() * number

    arguments = [table, drawn(rng, (30, LANES)), drawn(rng, (LANES,), "flag"), drawn(rng, (LANES,))]
    place = jnp.asarray([0, 3, 1, 2, 3])
    for forms in (
        ("whole", "whole", "parts", "parts", "whole"),
        ("plain", "whole", "whole", "plain", "parts"),
        ("whole", "plain", "parts", "whole", "plain"),
        ("plain", "plain", "plain", "plain", "whole"),
    ):
        assert_is_vmap(program, [*arguments, place], forms)


def names_in(jaxpr):
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda one: hasattr(one, "eqns")):
            if hasattr(inner, "eqns"):
                yield from names_in(getattr(inner, "jaxpr", inner))


# The names that this or that version of JAX gives to an operation it calls otherwise, or has none of.
OF_OTHER_VERSIONS = {"expand_dims", "pjit", "closed_call", "unstack"}


def test_every_operation_that_has_a_rule_is_tried_above():
    numbers, integers, cube = jnp.ones((4, 6)), jnp.ones((4, 6), int), jnp.ones((2, 3, 2))
    tried = set()
    for table, given_ in ((REALS, (numbers, numbers)), (WHOLES, (integers, integers)), (ALONG, (cube,))):
        tried |= set(names_in(jax.make_jaxpr(all_of(table))(*given_).jaxpr))
    rules = {*lanes.INNER, *lanes._NUMBERWISE, *lanes._ALONG_AXES, *lanes._FOLDS, *lanes._MOVES}
    assert rules - tried - OF_OTHER_VERSIONS == set()


def test_flags_and_integers_are_folded_as_what_they_are():
    rng = np.random.default_rng(4)
    folds = {
        "all": lambda i, f: jnp.all(f, axis=1),
        "any": lambda i, f: jnp.any(f, axis=0),
        "count": lambda i, f: jnp.sum(f, axis=1),
        "first": lambda i, f: jnp.argmax(f, axis=1),
        "largest of small integers": lambda i, f: jnp.max(i.astype(jnp.int8), axis=1),
        "product of unsigned integers": lambda i, f: jnp.prod(i.astype(jnp.uint32), axis=1, dtype=jnp.uint32),
    }
    for shape in ((3, 4), (4, 30)):
        arguments = drawn(rng, (*shape, LANES), "whole"), drawn(rng, (*shape, LANES), "flag")
        for forms in [("whole", "whole")] if np.prod(shape) > 64 else [("whole", "whole"), ("parts", "parts")]:
            assert_is_vmap(all_of(folds), arguments, forms)


def test_the_bits_of_integers_are_folded_one_by_one():
    folds = {"and": lambda i: jax.lax.reduce_and(i, (1,)), "or": lambda i: jax.lax.reduce_or(i, (0,))}
    for shape in ((3, 4), (4, 30)):
        array = drawn(np.random.default_rng(5), (*shape, LANES), "whole")
        assert_is_vmap(all_of(folds), [array], ["whole"])
    assert_is_vmap(all_of(folds), [array[:2, :3]], ["parts"])


def test_functions_with_gradients_of_their_own_may_meet_no_lanes():
    functions = {
        "forward": lambda x, y: jax.nn.relu(x - 1.0) * jax.nn.relu(y - 1.0),
        "backward": lambda x, y: with_own_gradient(x) + with_own_gradient(y),
        "in a branch": lambda x, y: jax.lax.cond(x[0] > y[0], lambda: jax.nn.relu(x - 1.0), lambda: jax.nn.relu(y)),
    }
    arguments = [drawn(np.random.default_rng(5), (3, LANES)) for _ in range(2)]
    for forms in (("whole", "plain"), ("plain", "parts")):
        for function in functions.values():
            assert_is_vmap(function, arguments, forms)


def test_plain_python_numbers_may_stand_among_parts():
    functions = {
        "clamp": lambda x: jax.lax.clamp(0.5, x, 1.5),
        "pad": lambda x: jax.lax.pad(x, 7.0, ((1, 1, 0),)),
        "pad with less": lambda x: jax.lax.pad(x, 7.0, ((-1, 1, 0),)),
        "fori_loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y + x[i], jnp.zeros_like(x[0])),
    }
    for form in ("whole", "parts"):
        for function in functions.values():
            assert_is_vmap(function, [drawn(np.random.default_rng(5), (3, LANES))], [form])


def test_bits_may_be_read_as_numbers_of_another_width():
    casts = {
        "wider to narrower": lambda x: jax.lax.bitcast_convert_type(x, jnp.uint32),
        "narrower to wider": lambda x: jax.lax.bitcast_convert_type(x.astype(jnp.float32).reshape(-1, 2), jnp.float64),
    }
    for shape in ((4,), (40,), (80,)):
        assert_is_vmap(all_of(casts), [drawn(np.random.default_rng(5), (*shape, LANES))], ["whole"])


def test_empty_arrays_are_arrays_too():
    def program(x, y):
        nothing = x[:0]
        return nothing, nothing.sum(), nothing * y, jnp.concatenate([nothing, x]), (nothing > 0.5), jnp.cumsum(nothing)

    arguments = [drawn(np.random.default_rng(6), shape) for shape in ((3, LANES), (LANES,))]
    for forms in (("whole", "whole"), ("parts", "parts"), ("parts", "plain")):
        assert_is_vmap(program, arguments, forms)
    # A comparison with no edges at all, as a histogram of one bin makes it.
    count = lambda x: jnp.sum(x[..., None] >= jnp.zeros((1, 0)), axis=-1)
    assert_is_vmap(count, arguments[:1], ["whole"])
    assert_is_vmap(count, arguments[:1], ["parts"])


def test_numbers_that_are_not_finite_go_where_vmap_takes_them():
    array = jnp.asarray([[jnp.nan, 1.0, jnp.inf, -jnp.inf, 0.0], [1.0, jnp.nan, 2.0, jnp.inf, -0.0]])
    functions = {
        name: partial(function, axis=0)
        for name, function in {"max": jnp.max, "min": jnp.min, "sum": jnp.sum, "prod": jnp.prod}.items()
    }
    functions |= {"argmax": partial(jnp.argmax, axis=0), "sign": jnp.sign, "clip": lambda x: jnp.clip(x, 0.0, 1.0)}
    for form in ("whole", "parts"):
        assert_is_vmap(all_of(functions), [array], [form])


PROGRAMS = {
    "sin": lambda x, y: jnp.sin(x) * y[-1],
    "halves": lambda x, y: jnp.concatenate([x[: 1 + len(x) // 2], y[len(y) // 2 :]]),
    "outer": lambda x, y: (x[:4, None] * y[None, :4]).ravel(),
    "fold": lambda x, y: x * jnp.max(y) - jnp.sum(x),
    "cumulate": lambda x, y: jnp.cumsum(x) / (1.0 + jnp.abs(y[0])),
    "pad": lambda x, y: jnp.pad(x, (1, 0), constant_values=0.5),
    "pick": lambda x, y: x[jnp.argmax(y) % len(x)] + y,
    "compare": lambda x, y: jnp.where(x > y[0], x, 1.0),
    "sort": lambda x, y: jnp.sort(x),
    "repeat": lambda x, y: jnp.tile(x, 3)[:90],
    "swap": lambda x, y: -y,
}


@given(
    st.lists(st.sampled_from(sorted(PROGRAMS)), min_size=1, max_size=7),
    st.sampled_from(
        [("whole", "whole"), ("parts", "plain"), ("plain", "parts"), ("whole", "parts"), ("parts", "parts")]
    ),
    st.sampled_from([(1, 1), (3, 3), (8, 20), (40, 5)]),
    st.integers(0, 1000),
)
@settings(max_examples=15)
def test_programs_of_many_operations(names, forms, lengths, seed):
    def program(x, y):
        for name in names:
            x, y = PROGRAMS[name](x, y) / 2.0, x
        return x, y

    rng = np.random.default_rng(seed)
    assert_is_vmap(program, [drawn(rng, (length, LANES)) for length in lengths], forms, seed)


@pytest.mark.parametrize("impl", ["threefry2x32", streams.STREAM], ids=str)
def test_random_numbers_of_lanes_are_those_of_their_keys(impl):
    keys = jax.random.split(jax.random.key(7, impl=impl), LANES)

    def draw(key):
        own, other = jax.random.split(key)
        many = jax.random.split(other, 20)
        return {
            "uniform": jax.random.uniform(own, (3,)),
            "many uniform": jax.random.uniform(own, (30, 4)),
            "one uniform": jax.random.uniform(other),
            "single precision": jax.random.uniform(own, (3,), jnp.float32),
            "integers": jax.random.randint(own, (4,), 0, 10),
            "bits": jax.random.bits(own, (4,), jnp.uint8),
            "permutation": jax.random.permutation(own, 6),
            "folded in": jax.random.uniform(jax.random.fold_in(own, 3)),
            "of many keys": jax.vmap(jax.random.uniform)(many),
            "of one of many keys": jax.random.uniform(many[17]),
            "key data": jax.random.key_data(own),
        }

    assert_is_vmap(draw, [keys], ["whole"])


@pytest.mark.parametrize("impl", ["threefry2x32", streams.STREAM], ids=str)
def test_keys_can_be_carried_and_given_back(impl):
    keys = jax.random.split(jax.random.key(8, impl=impl), LANES)
    found = over_lanes(lambda key: (jax.random.split(key), jax.random.fold_in(key, 1)), LANES, Whole(keys))
    wanted = jax.vmap(lambda key: (jax.random.split(key), jax.random.fold_in(key, 1)), out_axes=-1)(keys)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(jax.random.key_data(whole(one, LANES)), jax.random.key_data(other))


def test_what_does_not_depend_on_the_lane_has_none():
    def program(clock, row, number):
        return {
            "clock": clock + 1,
            "row": jnp.cumsum(row) * 2,
            "constant": jnp.arange(3),
            "of nothing": jnp.zeros((2, 30)),
            "inside": jax.jit(jnp.sin)(row),
            "a common part of parts": jnp.stack([number, clock])[1],
            "a sum of common parts": jnp.stack([number, clock, clock])[1:].sum(),
            "own": number * clock,
        }

    given_ = jnp.ones(()), jnp.ones(40), Parts((), (jnp.arange(5.0),))
    found = over_lanes(program, LANES, *given_)
    assert {name for name, one in found.items() if is_laned(one)} == {"own"}
    wanted = program(jnp.ones(()), jnp.ones(40), jnp.ones(()))
    for name in found.keys() - {"own"}:
        assert np.array_equal(found[name], wanted[name]), name
    # Numbers of which some have lanes keep those apart that have none.
    mixed = over_lanes(lambda clock, number: jnp.stack([clock, number]) + 1.0, LANES, given_[0], given_[2])
    assert [np.ndim(number) for number in mixed.numbers] == [0, 1]


def test_whole_gives_one_array_of_every_form():
    array = jnp.arange(6 * LANES).reshape(2, 3, LANES)
    parts = Parts((2, 3), tuple(array.reshape(6, LANES)))
    assert np.array_equal(whole(Whole(array), LANES), array)
    assert np.array_equal(whole(parts, LANES), array)
    common = whole(array[..., 0], LANES)
    assert common.shape == array.shape
    assert np.array_equal(common[..., 3], array[..., 0])
    one = Parts((), (jnp.asarray(3),))
    assert whole(one, LANES).tolist() == [3] * LANES


@pytest.mark.parametrize("start", [0, 1, 3])
def test_some_lanes_are_a_slice_of_all(start):
    array = jnp.arange(6.0 * LANES).reshape(2, 3, LANES)
    numbers = [vector if index % 2 else vector[0] for index, vector in enumerate(array.reshape(6, LANES))]
    forms = (
        Whole(array),
        Parts((2, 3), tuple(numbers)),
        array[..., 0],
        Parts((), (array[0, 0],)),
        Parts((), (array[0, 0, 0],)),
    )
    for value in forms:
        found = jax.jit(some_lanes, static_argnums=2)(value, start, 2)
        assert np.array_equal(found, whole(value, LANES)[..., start : start + 2])


def test_settled_leaves_have_lanes_where_a_step_gives_them_some():
    common = jnp.zeros(())
    opening = {
        "clock": common,
        "own": common,
        "late": common,
        "table": jnp.zeros((3, 30)),
        "few": jnp.zeros(3),
        "untouched": jnp.ones(2),
        "whole": Whole(jnp.zeros((40, LANES))),
    }
    numbers = Whole(jnp.arange(5.0))

    def one_lane(carry, number):
        return {
            "clock": carry["clock"] + 1,
            # It takes two steps for the lanes to come through to this one.
            "late": carry["own"] * 2,
            "own": carry["own"] + number,
            "table": carry["table"].at[0].add(number),
            "few": carry["few"].at[1].set(number),
            "untouched": carry["untouched"],
            "whole": carry["whole"] + 1,
        }

    advance = lambda carry: over_lanes(one_lane, LANES, carry, numbers)
    found = settled(advance, opening, LANES)
    assert {name for name in found if is_laned(found[name])} == {"own", "late", "table", "few", "whole"}
    # The loop that needs it carries it, and does what vmap does.
    looped, _ = jax.lax.scan(lambda carry, _: (advance(carry), None), found, None, length=4)
    plain = {name: one.array if isinstance(one, Whole) else one for name, one in opening.items()}
    axes = {name: -1 if isinstance(one, Whole) else None for name, one in opening.items()}

    def alone(carry, number):
        return jax.lax.scan(lambda carry, _: (one_lane(carry, number), None), carry, None, length=4)[0]

    wanted = jax.vmap(alone, in_axes=(axes, -1), out_axes=-1)(plain, numbers.array)
    for name, one in looped.items():
        assert_same(whole(one, LANES), wanted[name], name)
    # What is settled already stays as it is.
    again = settled(advance, found, LANES)
    assert all(again[name] is found[name] for name in found)


def test_single_precision_changes_real_numbers_alone():
    tree = {"real": jnp.ones(3), "integer": jnp.arange(3), "flag": jnp.ones(2, bool), "key": streams.key(0)}
    found = in_single_precision(tree)
    assert found["real"].dtype == jnp.float32
    assert all(found[name] is tree[name] for name in ("integer", "flag", "key"))


def test_for_each_is_a_loop_along_the_first_axis():
    numbers, keys = jnp.arange(4.0), jax.random.split(streams.key(1), 4)
    function = lambda number, key, nothing: (number * 2, jax.random.uniform(key))
    found = lanes.for_each(function, numbers, keys, None)
    wanted = [function(number, key, None) for number, key in zip(numbers, keys, strict=True)]
    assert_same(found[0], np.stack([one for one, _ in wanted]))
    assert_same(found[1], np.stack([other for _, other in wanted]))


# Whole episodes.


def finite_problem(num_actions=3):
    return random_finite_problem(num_actions, num_actions)[0]


def single_mdp():
    """One MDP of one state: nothing to draw, and arrays without numbers."""
    lmdp = FiniteLMDP(np.ones(1), np.ones((1, 1)), np.ones((1, 1, 2, 1)), np.asarray([[[0.25, 0.75]]]), 4)
    return FiniteProblem(lmdp, jnp.asarray([[[0.5], [1.0]]]))


HISTOGRAM = {"kind": "histogram", "weights": [1, 3, 2, 1]}
PLAYED = {
    "bcp": lambda: (rampup.make("bcp", n=9), "legendre:3", "optimal"),
    "bcp of one": lambda: (rampup.make("bcp", n=1), "monomial:1", "threshold:0"),
    "bcp of many": lambda: (rampup.make("bcp", n=90, series="random:1"), "one_hot", "threshold:0.37"),
    "okd": lambda: (rampup.make("okd", n=7, B=1, V=1.5), "monomial:2", "bang_per_buck:1.2"),
    "okd with histograms": lambda: (
        rampup.make("okd", n=12, B=1, V=1.5, sizes=HISTOGRAM, values="special"),
        "legendre:2",
        "greedy",
    ),
    "okd with a histogram of one bin": lambda: (
        rampup.make("okd", n=5, B=1, V=1.5, sizes={"kind": "histogram", "weights": [1]}),
        "monomial:2",
        "greedy",
    ),
    "okd with samples": lambda: (
        rampup.make("okd", n=6, B=2, V=1, sizes={"kind": "empirical", "sample": [0.1, 0.7]}, values="bernoulli"),
        "monomial:2",
        "accept_everything",
    ),
    "adw of one advertiser": lambda: (rampup.make("adw", n=1, m=5, V=0.9), "monomial:2", "greedy"),
    "adw of few advertisers": lambda: (rampup.make("adw", n=4, m=6, V=2.5), "monomial:2", "best_fit"),
    "adw of unlike advertisers": lambda: (
        rampup.make("adw", n=3, m=6, V=2, bids=["uniform", "special", HISTOGRAM]),
        "legendre:2",
        "balance",
    ),
    "adw of many advertisers": lambda: (rampup.make("adw", n=70, m=8, V=5), "monomial:2", "msvv"),
    "finite": lambda: (finite_problem(), "monomial:2", None),
    "finite with two actions": lambda: (finite_problem(2), "monomial:2", None),
    "finite of one state": lambda: (single_mdp(), "monomial:2", None),
}


def policies_of(name):
    problem, spec, rule = PLAYED[name]()
    features = rampup.as_features(spec, problem)
    theta = jnp.asarray(np.random.default_rng(9).normal(size=features.size))
    named = rampup.policy_named(problem, rule) if rule else certain
    return problem, {"log-linear": rampup.LogLinear(problem, features, theta), "rule": named}


def certain(observation):
    """A finite problem's rule: the action is told by the parity of the state."""
    return jnp.log(jnp.where(jnp.arange(2) == observation[0].astype(int) % 2, 1.0, 0.0))


QUICK = ("bcp", "okd", "adw of few advertisers", "adw of many advertisers", "finite")


@pytest.mark.parametrize("kind", ["log-linear", "rule"])
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=[pytest.mark.slow, pytest.mark.long]) for name in PLAYED],
)
def test_episodes_in_step_are_the_episodes_of_vmap(name, kind):
    assert_plays_as_vmap(name, kind, streams.STREAM)


def test_episodes_in_step_are_the_episodes_of_vmap_with_jaxs_own_keys():
    assert_plays_as_vmap("okd", "log-linear", "threefry2x32")


def assert_plays_as_vmap(name, kind, impl):
    problem, policies = policies_of(name)
    policy_fn = policies[kind]
    if kind == "rule" and name == "finite":
        policy_fn = lambda observation: jnp.pad(certain(observation), (0, 1), constant_values=-jnp.inf)
    keys = jax.random.split(jax.random.key(10, impl=impl), 40)
    found = jax.jit(partial(play_many, problem, policy_fn))(keys)
    wanted = jax.jit(jax.vmap(partial(play, problem, policy_fn)))(keys)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(wanted)]
    for path, one, other in zip(paths, jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_same(one, other, path)
    # Lanes differ, or the comparison would say little.
    if problem.horizon > 1 and name != "finite of one state":
        assert len(np.unique(wanted.observations, axis=0)) > 1
