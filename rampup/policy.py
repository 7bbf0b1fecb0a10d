"""The log-linear policy pi_theta(a|s) ~ exp(theta . phi(s,a)) as functions of theta and the variables of a state."""

from itertools import accumulate
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rampup.features import Features, OneHot, Polynomial
from rampup.problems.base import Problem
from rampup.types import Action, LogProbs, Observation, Probs, Real, Theta, Variables


def phi(features: Features, variables: Variables) -> Float[Array, "action feat"]:
    """Return the feature vector of every action; a single row of variables is accept's, and reject's phi is zero."""
    rows = jax.vmap(features.phi)(variables)
    return jnp.pad(rows, ((1, 0), (0, 0))) if len(rows) == 1 else rows


class Shares(NamedTuple):
    """How a policy acts in a state: each action's part of a total."""

    parts: Float[Array, " action"]
    total: Real

    @property
    def probs(self) -> Probs:
        """The probabilities of the actions."""
        return self.parts / self.total


def logits(
    features: Features, theta: Theta, variables: Variables, shared: tuple[int, ...] = ()
) -> Float[Array, " row"]:
    """Return theta . phi of every row of variables.

    Args:
        shared: the places of variables that are the same in all rows: their part is done once.
    """
    if len(variables) == 1:
        return features.dot(theta, variables[0])[None]
    if isinstance(features, Polynomial) and shared:
        own = [place for place in range(variables.shape[1]) if place not in shared]
        features, theta = features.fixing(theta, shared, variables[0])
        variables = jnp.stack([variables[:, place] for place in own], axis=1)
    return jax.vmap(lambda row: features.dot(theta, row))(variables)


def logits_of_log_probs(log_probs: LogProbs, num_rows: int) -> Float[Array, " row"]:
    """Logits by which one acts so: of every action, or of accept alone where that is the only row."""
    return log_probs[1:] - log_probs[0] if num_rows == 1 else log_probs


def shares(logits: Float[Array, " row"]) -> Shares:
    """How one acts by logits of the actions, or by accept's alone, when reject's is zero."""
    if len(logits) == 1:
        small = jnp.exp(-jnp.abs(logits[0]))
        return Shares(jnp.where(jnp.stack([logits[0] <= 0, logits[0] > 0]), 1.0, small), 1 + small)
    parts = jnp.exp(logits - jnp.max(logits))
    return Shares(parts, jnp.sum(parts))


def log_shares(logits: Float[Array, " row"]) -> LogProbs:
    """ln of the probabilities by which one acts by these logits, however small they are."""
    if len(logits) == 1:
        ln_total = jnp.log1p(jnp.exp(-jnp.abs(logits[0])))
        return jnp.stack([jnp.minimum(-logits[0], 0.0), jnp.minimum(logits[0], 0.0)]) - ln_total
    shifted = logits - jnp.max(logits)
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted)))


def log_probs(features: Features, theta: Theta, variables: Variables, shared: tuple[int, ...] = ()) -> LogProbs:
    """Return ln pi_theta(a|s) of every action a; `shared` as above."""
    return log_shares(logits(features, theta, variables, shared))


def score(features: Features, theta: Theta, variables: Variables, action: Action) -> Theta:
    """Return grad_theta ln pi_theta(action|s) = phi(s,action) - sum_b pi_theta(b|s) phi(s,b)."""
    rows = phi(features, variables)
    return rows[action] - jnp.exp(log_probs(features, theta, variables)) @ rows


def entropy(log_probs: LogProbs) -> Real:
    """Return the entropy of the action distribution; actions of probability zero count nothing."""
    return -jnp.sum(jnp.where(log_probs > -jnp.inf, jnp.exp(log_probs) * log_probs, 0.0))


def choose(log_probs: LogProbs, uniform: Real) -> Action:
    """Return the action in whose share of [0, 1) the uniform number falls."""
    return choose_by(Shares(jnp.exp(log_probs), jnp.ones_like(uniform)), uniform)


# Sums of so few shares are written out, which fuses into one loop over lanes; of more they are a program of their own.
_FEW_ACTIONS = 64


def choose_by(shares: Shares, uniform: Real) -> Action:
    """The same, given the shares; rounding may leave their sum below the total, so the last has no end."""
    mark = uniform * shares.total
    if len(shares.parts) > _FEW_ACTIONS:
        return jnp.sum(mark >= jnp.cumsum(shares.parts)[:-1], dtype=jnp.int32)
    edges = accumulate(shares.parts[:-1])
    return sum(((mark >= edge).astype(jnp.int32) for edge in edges), start=jnp.zeros((), jnp.int32))


def of_action(numbers: Probs, action: Action) -> Real:
    """The number that belongs to an action: a sum instead of a look-up, which lanes cannot do side by side."""
    return jnp.sum(jnp.where(jnp.arange(len(numbers), dtype=action.dtype) == action, numbers, 0.0))


class LogLinear(eqx.Module):
    """pi_theta as a function of what the player sees."""

    problem: Problem
    features: Features
    theta: Theta

    def __call__(self, observation: Observation) -> LogProbs:
        variables = self.problem.variables(observation)
        return log_probs(self.features, self.theta, variables, self.problem.shared_variables)


def largest_feature_norm(problem: Problem, features: Features) -> float:
    """B, a bound on |phi(s, a)|."""
    if isinstance(features, OneHot):
        return 1.0
    if not isinstance(features, Polynomial):
        raise ValueError("a bound on the norm is known of one_hot and of polynomial features only.")
    highest = problem.variables(jnp.asarray(problem.bounds()[1], dtype=float))
    if features.basis == "legendre":
        # On [0, 1] they are largest at the ends, beyond it they grow; monomials grow everywhere.
        highest = jnp.maximum(highest, 1.0)
    return float(jnp.max(jnp.linalg.norm(phi(features, highest), axis=1)))
