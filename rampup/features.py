"""Feature maps: polynomial bases and one-hot tables as the vector phi, and theta . phi without building it."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup import arguments, kernels, registers
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.types import Real, Theta

Row = Float[Array, " var"]
Rows = Float[Array, "row var"]
Numbers = Float[Array, "..."]


class Features(eqx.Module):
    """A map from the variables of one action to its feature vector."""

    size: eqx.AbstractVar[int]

    @abstractmethod
    def phi(self, variables: Row) -> Float[Array, " feat"]:
        """Return the feature vector."""

    @abstractmethod
    def dot(self, theta: Theta, variables: Row) -> Real:
        """Return theta . phi, cheaper than through phi where the structure allows."""

    @abstractmethod
    def combination(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, " feat"]:
        """Return the sum of w phi over rows."""

    @abstractmethod
    def gram(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, "feat feat"]:
        """Return the sum of w phi phi' over rows."""


class Polynomial(Features):
    """Products of one univariate basis polynomial per variable; the first variable's degree runs fastest.

    `degrees[j]` is the number of basis polynomials of variable j, so that monomials with degrees (d0, 2) are the
    paper's (1, f, .., f^(d0-1), x, f x, .., f^(d0-1) x).
    """

    size: int = eqx.field(static=True)
    degrees: tuple[int, ...] = eqx.field(static=True)
    basis: str = eqx.field(static=True)

    def __init__(self, degrees: Sequence[int], basis: str = "monomial"):
        self.degrees = tuple(arguments.integer("degree", degree, least=1) for degree in degrees)
        self.basis = arguments.known_name("basis", basis, BASES)
        self.size = math.prod(self.degrees)

    def phi(self, variables: Row) -> Float[Array, " feat"]:
        product = jnp.ones((1,), variables.dtype)
        for value, degree in zip(variables, self.degrees, strict=True):
            product = (BASES[self.basis](value, degree)[:, None] * product[None, :]).ravel()
        return product

    def dot(self, theta: Theta, variables: Row) -> Real:
        # Contract the fastest variable first: each step divides the length by its degree.
        rest = theta
        for value, degree in zip(variables, self.degrees, strict=True):
            rest = SUMS[self.basis](value, [rest.reshape(-1, degree)[:, k] for k in range(degree)])
        return rest[0]

    def fixing(self, theta: Theta, places: Sequence[int], variables: Row) -> tuple["Polynomial", Theta]:
        """The polynomial that theta . phi is of the other variables, where those at some places are given."""
        degrees, rest = list(self.degrees), theta
        for place in sorted(places, reverse=True):
            before, degree = math.prod(degrees[:place]), degrees.pop(place)
            terms = rest.reshape(-1, degree, before)
            rest = SUMS[self.basis](variables[place], [terms[:, k].ravel() for k in range(degree)])
        return Polynomial(tuple(degrees), self.basis), rest

    def combination(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, " feat"]:
        return self._moments(weights, variables, self.degrees)

    def gram(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, "feat feat"]:
        """Products of basis polynomials are sums of ones of up to twice the degree, of which there are far fewer."""
        return self.gram_of(self._moments(weights, variables, self.doubled))

    @property
    def doubled(self) -> tuple[int, ...]:
        """How many basis polynomials of each variable are in products of two."""
        return tuple(2 * degree - 1 for degree in self.degrees)

    def moments(self, variables: Rows) -> Float[Array, "product row"]:
        """The products of basis polynomials, of up to twice the degree, of which phi phi' is made."""
        return reduce(
            _all_products, self._powers(variables, self.doubled), jnp.ones((1, len(variables)), variables.dtype)
        )

    def gram_of(self, moments: Float[Array, "product ..."]) -> Float[Array, "... feat feat"]:
        """Sums of phi phi' from the same sums of these products."""
        rest, count = moments.shape[1:], len(self.degrees)
        moments = moments.reshape(*self.doubled[::-1], *rest)
        for degree in self.degrees[::-1]:
            # Takes the foremost axis away and adds two at the end: after all, both degrees of every variable.
            products = jnp.asarray(PRODUCTS[self.basis](degree), moments.dtype)
            moments = jnp.tensordot(moments, products, axes=(0, 2), precision="highest")
        axes = [*range(0, 2 * count, 2), *range(1, 2 * count, 2)]
        order = [*range(len(rest)), *(len(rest) + axis for axis in axes)]
        return moments.transpose(order).reshape(*rest, self.size, self.size)

    def _powers(self, variables: Rows, lengths: Sequence[int]) -> list[Float[Array, "degree row"]]:
        """The basis polynomials of every variable."""
        return [BASES[self.basis](column, length) for column, length in zip(variables.T, lengths, strict=True)]

    def _moments(
        self, weights: Float[Array, " row"], variables: Rows, lengths: Sequence[int]
    ) -> Float[Array, " product"]:
        """The sums of w times each product of basis polynomials, as one product of two matrices."""
        if math.prod(lengths) <= _FEW_SUMS and kernels.can_be_had():
            return self.sums_in_registers(weights, variables, lengths)
        if len(weights) > ROWS_AT_ONCE:
            return _in_pieces(partial(self._moments, lengths=lengths), weights, variables, math.prod(lengths))
        powers = self._powers(variables, lengths)
        half = len(powers) // 2
        fast, slow = (reduce(_all_products, part, weights[None, :] ** 0) for part in (powers[:half], powers[half:]))
        return sum_of_products(slow, weights[None, :] * fast).ravel()

    def sums_in_registers(
        self, weights: Float[Array, " row"], variables: Rows, lengths: Sequence[int]
    ) -> Float[Array, " product"]:
        """The same where there are few of them, on a GPU: a thread goes through its rows and keeps every sum."""

        def begin(_: tuple[()], lane: tuple[Array, Array]) -> Float[Array, " product"]:
            return jnp.zeros(math.prod(lengths), weights.dtype)

        def advance(_: tuple[()], lane: tuple[Array, Array], step: Array, sums: Float[Array, " product"]):
            weights, columns = lane
            powers = (BASES[self.basis](value, length) for value, length in zip(columns[:, step], lengths, strict=True))
            products = reduce(_all_products, (one[:, None] for one in powers), weights[step][None, None])
            return sums + products[:, 0]

        num_lanes = registers.filled(-(-len(weights) // _ROWS_OF_A_LANE))
        num_steps = -(-len(weights) // num_lanes)
        extra = (0, num_steps * num_lanes - len(weights))
        lanes = (
            jnp.pad(weights, extra).reshape(num_steps, num_lanes),
            jnp.pad(variables.T, ((0, 0), extra)).reshape(-1, num_steps, num_lanes),
        )
        return jnp.sum(registers.Loop(begin, advance).play(num_steps, (), lanes).array, axis=1)


def sum_of_products(left: Float[Array, "left row"], right: Float[Array, "right row"]) -> Float[Array, "left right"]:
    """The sum over rows of the products of two columns."""
    return left @ right.T if jax.default_backend() == "cpu" else by_small_sums(left, right)


def by_small_sums(left: Float[Array, "left row"], right: Float[Array, "right row"]) -> Float[Array, "left right"]:
    """The same for a GPU, which has few blocks of threads for one long sum, and many for short ones side by side."""
    extra = -left.shape[1] % _ROWS_OF_A_SUM
    pieces = (jnp.pad(part, ((0, 0), (0, extra))).reshape(len(part), -1, _ROWS_OF_A_SUM) for part in (left, right))
    return jnp.sum(jnp.einsum("ipr,jpr->pij", *pieces, precision="highest"), axis=0)


_ROWS_OF_A_SUM = 512
_FEW_SUMS = 64
_ROWS_OF_A_LANE = 8

ROWS_AT_ONCE = 2**16
"""So many rows are summed over in one product: their powers take a few hundred numbers each."""


def _in_pieces(
    sums_of: Callable[[Array, Array], Array], weights: Float[Array, " row"], variables: Rows, length: int
) -> Float[Array, " product"]:
    """Sums over rows, a piece at a time; the last is filled up with rows of no weight."""
    extra = -len(weights) % ROWS_AT_ONCE
    pieces = (
        jnp.pad(weights, (0, extra)).reshape(-1, ROWS_AT_ONCE),
        jnp.pad(variables, ((0, extra), (0, 0))).reshape(-1, ROWS_AT_ONCE, variables.shape[1]),
    )
    add = lambda total, piece: (total + sums_of(*piece), None)
    return jax.lax.scan(add, jnp.zeros(length, weights.dtype), pieces)[0]


def _all_products(products: Float[Array, "product row"], powers: Float[Array, "degree row"]) -> Array:
    """Every product so far times every power, the powers running slowest."""
    return (powers[:, None, :] * products[None, :, :]).reshape(-1, products.shape[-1])


def monomials(value: Numbers, degree: int) -> Float[Array, "degree ..."]:
    """1, z, .., z^(degree-1)."""
    powers = [jnp.ones_like(value)]
    for _ in range(degree - 1):
        powers.append(powers[-1] * value)
    return jnp.stack(powers)


def legendre(value: Numbers, degree: int) -> Float[Array, "degree ..."]:
    """The Legendre polynomials P_0 .. P_(degree-1) shifted to [0, 1], by their three-term recurrence."""
    z = 2.0 * value - 1.0
    polynomials = [jnp.ones_like(value), z]
    for k in range(1, degree - 1):
        polynomials.append(((2 * k + 1) * z * polynomials[k] - k * polynomials[k - 1]) / (k + 1))
    return jnp.stack(polynomials[:degree])


def monomial_sum(value: Real, coefficients: Sequence[Array]) -> Array:
    """The sum of coefficients times monomials, by Horner's rule."""
    return reduce(lambda total, coefficient: total * value + coefficient, coefficients[::-1])


def legendre_sum(value: Real, coefficients: Sequence[Array]) -> Array:
    """The sum of coefficients times Legendre polynomials."""
    polynomials = legendre(value, len(coefficients))
    return sum(
        (coefficients[k] * polynomials[k] for k in range(1, len(coefficients))), start=coefficients[0] * polynomials[0]
    )


def monomial_products(degree: int) -> np.ndarray:
    """Entry (a, b, k): how much of z^k is in z^a z^b."""
    a, b = np.indices((degree, degree))
    return np.eye(2 * degree - 1)[a + b]


def legendre_products(degree: int) -> np.ndarray:
    """Entry (a, b, k): how much of P_k is in P_a P_b."""
    table = np.zeros((degree, degree, 2 * degree - 1))
    for a, b in np.ndindex(degree, degree):
        table[a, b, : a + b + 1] = np.polynomial.legendre.legmul(np.eye(degree)[a], np.eye(degree)[b])[: a + b + 1]
    return table


SUMS: dict[str, Callable[[Real, Sequence[Array]], Array]] = {"monomial": monomial_sum, "legendre": legendre_sum}
PRODUCTS: dict[str, Callable[[int], np.ndarray]] = {"monomial": monomial_products, "legendre": legendre_products}
BASES: dict[str, Callable[[Numbers, int], Float[Array, "degree ..."]]] = {"monomial": monomials, "legendre": legendre}


class OneHot(Features):
    """A table: one feature per grid point; variable j takes `counts[j]` equally spaced values from low to high."""

    size: int = eqx.field(static=True)
    counts: tuple[int, ...] = eqx.field(static=True)
    lows: tuple[float, ...] = eqx.field(static=True)
    highs: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, counts: tuple[int, ...], lows: tuple[float, ...], highs: tuple[float, ...]):
        self.counts = tuple(arguments.integer("count", count, least=1) for count in counts)
        self.lows = tuple(arguments.real("low", low) for low in lows)
        self.highs = tuple(arguments.real("high", high) for high in highs)
        self.size = math.prod(self.counts)

    def place(self, variables: Row) -> Array:
        """Return which feature is one; the last variable runs fastest."""
        index = jnp.zeros((), dtype=int)
        for value, count, low, high in zip(variables, self.counts, self.lows, self.highs, strict=True):
            step = (high - low) / (count - 1) if count > 1 else 1.0
            index = index * count + jnp.clip(jnp.round((value - low) / step).astype(int), 0, count - 1)
        return index

    def phi(self, variables: Row) -> Float[Array, " feat"]:
        return jax.nn.one_hot(self.place(variables), self.size, dtype=variables.dtype)

    def dot(self, theta: Theta, variables: Row) -> Real:
        return theta[self.place(variables)]

    def combination(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, " feat"]:
        return jnp.zeros(self.size, weights.dtype).at[jax.vmap(self.place)(variables)].add(weights)

    def gram(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, "feat feat"]:
        return jnp.diag(self.combination(weights, variables))


class UserFeatures(Features):
    """A feature map given as a function of the variables of one action."""

    size: int = eqx.field(static=True)
    function: Callable[[Row], Float[Array, " feat"]] = eqx.field(static=True)

    def phi(self, variables: Row) -> Float[Array, " feat"]:
        return self.function(variables)

    def dot(self, theta: Theta, variables: Row) -> Real:
        return theta @ self.function(variables)

    def combination(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, " feat"]:
        return weights @ jax.vmap(self.function)(variables)

    def gram(self, weights: Float[Array, " row"], variables: Rows) -> Float[Array, "feat feat"]:
        rows = jax.vmap(self.function)(variables)
        return (weights[:, None] * rows).T @ rows


def user_features(function: Callable[[Row], Float[Array, " feat"]], num_variables: int) -> UserFeatures:
    """Features from a function of the variables of one action, whose size is found by tracing it."""
    number = arguments.integer("num_variables", num_variables, least=1)
    shape = jax.eval_shape(function, jax.ShapeDtypeStruct((number,), jnp.result_type(float))).shape
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"`function` must return a vector of features, got shape {shape}.")
    return UserFeatures(shape[0], function)


def as_features(spec: Any, problem: Problem) -> Features:
    """Turn features, or their name "monomial:D0", "legendre:D0" or "one_hot", into features for a problem."""
    if isinstance(spec, Features):
        return spec
    name, _, degree = str(spec).partition(":")
    arguments.known_name("features", name, (*BASES, "one_hot"))
    if name == "one_hot":
        if degree or not isinstance(problem, BCP):
            raise ValueError(
                f"`features` one_hot takes no degree and needs the finitely many states of bcp, got {spec!r}."
            )
        return OneHot((problem.horizon, 2), (1 / problem.horizon, 0.0), (1.0, 1.0))
    if not degree.isdecimal() or int(degree) < 1:
        raise ValueError(f"`features` {name} needs a degree of at least 1, as in '{name}:3', got {spec!r}.")
    return Polynomial(problem.degrees(int(degree)), name)


def better_conditioned(features: Features) -> Features:
    """Features that span the same functions in a basis that is easier on arithmetic."""
    return Polynomial(features.degrees, "legendre") if isinstance(features, Polynomial) else features


def check_fits(features: Features, problem: Problem) -> None:
    """Refuse a table that was made for another size of the problem."""
    if isinstance(features, OneHot) and isinstance(problem, BCP) and features.counts[0] != problem.horizon:
        raise ValueError(
            f"`features` one_hot is a table for n = {features.counts[0]} and says nothing about n = {problem.horizon}: "
            "take monomial:D0 or legendre:D0 to carry a policy over."
        )
