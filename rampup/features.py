"""Feature maps: polynomial bases and one-hot tables as the vector phi, and theta . phi without building it."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rampup import arguments
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.types import Real, Theta

Row = Float[Array, " var"]


class Features(eqx.Module):
    """A map from the variables of one action to its feature vector."""

    size: eqx.AbstractVar[int]

    @abstractmethod
    def phi(self, variables: Row) -> Float[Array, " feat"]:
        """Return the feature vector."""

    @abstractmethod
    def dot(self, theta: Theta, variables: Row) -> Real:
        """Return theta . phi, cheaper than through phi where the structure allows."""


class Polynomial(Features):
    """Products of one univariate basis polynomial per variable; the first variable's degree runs fastest.

    `degrees[j]` is the number of basis polynomials of variable j, so that monomials with degrees (d0, 2) are the
    paper's (1, f, .., f^(d0-1), x, f x, .., f^(d0-1) x).
    """

    size: int = eqx.field(static=True)
    degrees: tuple[int, ...] = eqx.field(static=True)
    basis: str = eqx.field(static=True)

    def __init__(self, degrees: tuple[int, ...], basis: str = "monomial"):
        self.degrees = tuple(arguments.integer("degree", degree, least=1) for degree in degrees)
        self.basis = arguments.known_name("basis", basis, BASES)
        self.size = math.prod(self.degrees)

    def phi(self, variables: Row) -> Float[Array, " feat"]:
        product = jnp.ones((1,), variables.dtype)
        for value, degree in zip(variables, self.degrees, strict=True):
            product = (BASES[self.basis](value, degree)[:, None] * product[None, :]).ravel()
        return product

    def dot(self, theta: Theta, variables: Row) -> Real:
        # Contract the slowest variable first: each step divides the length by its degree.
        rest = theta
        for value, degree in zip(variables[::-1], self.degrees[::-1], strict=True):
            # A sum of products rather than a dot: XLA fuses it into one loop over lanes.
            basis, parts = BASES[self.basis](value, degree), rest.reshape(degree, -1)
            rest = sum((basis[k] * parts[k] for k in range(1, degree)), start=basis[0] * parts[0])
        return rest[0]


def monomials(value: Real, degree: int) -> Float[Array, " degree"]:
    """1, z, .., z^(degree-1)."""
    powers = [jnp.ones_like(value)]
    for _ in range(degree - 1):
        powers.append(powers[-1] * value)
    return jnp.stack(powers)


def legendre(value: Real, degree: int) -> Float[Array, " degree"]:
    """The Legendre polynomials P_0 .. P_(degree-1) shifted to [0, 1], by their three-term recurrence."""
    z = 2.0 * value - 1.0
    polynomials = [jnp.ones_like(value), z]
    for k in range(1, degree - 1):
        polynomials.append(((2 * k + 1) * z * polynomials[k] - k * polynomials[k - 1]) / (k + 1))
    return jnp.stack(polynomials[:degree])


BASES: dict[str, Callable[[Real, int], Float[Array, " degree"]]] = {"monomial": monomials, "legendre": legendre}


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


class UserFeatures(Features):
    """A feature map given as a function of the variables of one action."""

    size: int = eqx.field(static=True)
    function: Callable[[Row], Float[Array, " feat"]] = eqx.field(static=True)

    def phi(self, variables: Row) -> Float[Array, " feat"]:
        return self.function(variables)

    def dot(self, theta: Theta, variables: Row) -> Real:
        return theta @ self.function(variables)


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


def check_fits(features: Features, problem: Problem) -> None:
    """Refuse a table that was made for another size of the problem."""
    if isinstance(features, OneHot) and isinstance(problem, BCP) and features.counts[0] != problem.horizon:
        raise ValueError(
            f"`features` one_hot is a table for n = {features.counts[0]} and says nothing about n = {problem.horizon}: "
            "take monomial:D0 or legendre:D0 to carry a policy over."
        )
