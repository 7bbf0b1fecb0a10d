"""The log-linear policy pi_theta(a|s) ~ exp(theta . phi(s,a)) as functions of theta and the variables of a state."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rampup.features import Features, OneHot, Polynomial
from rampup.problems.base import Problem
from rampup.types import Action, LogProbs, Observation, Real, Theta, Variables


def phi(features: Features, variables: Variables) -> Float[Array, "action feat"]:
    """Return the feature vector of every action; a single row of variables is accept's, and reject's phi is zero."""
    rows = jax.vmap(features.phi)(variables)
    return jnp.pad(rows, ((1, 0), (0, 0))) if len(rows) == 1 else rows


def log_probs(features: Features, theta: Theta, variables: Variables) -> LogProbs:
    """Return ln pi_theta(a|s) of every action a."""
    logits = jax.vmap(lambda row: features.dot(theta, row))(variables)
    if len(logits) == 1:
        return jnp.concatenate([jax.nn.log_sigmoid(-logits), jax.nn.log_sigmoid(logits)])
    return jax.nn.log_softmax(logits)


def score(features: Features, theta: Theta, variables: Variables, action: Action) -> Theta:
    """Return grad_theta ln pi_theta(action|s) = phi(s,action) - sum_b pi_theta(b|s) phi(s,b)."""
    rows = phi(features, variables)
    return rows[action] - jnp.exp(log_probs(features, theta, variables)) @ rows


def entropy(log_probs: LogProbs) -> Real:
    """Return the entropy of the action distribution; actions of probability zero count nothing."""
    return -jnp.sum(jnp.where(log_probs > -jnp.inf, jnp.exp(log_probs) * log_probs, 0.0))


def choose(log_probs: LogProbs, uniform: Real) -> Action:
    """Return the action in whose share of [0, 1) the uniform number falls."""
    shares = jnp.cumsum(jnp.exp(log_probs))
    # The last share is closed by force: rounding may leave the sum just below 1.
    return jnp.sum(uniform >= shares[:-1])


class LogLinear(eqx.Module):
    """pi_theta as a function of what the player sees."""

    problem: Problem
    features: Features
    theta: Theta

    def __call__(self, observation: Observation) -> LogProbs:
        return log_probs(self.features, self.theta, self.problem.variables(observation))


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
