"""The best choice problem, exactly, for any policy in O(n) time and memory: reach, values, moments and kappa.

Given that arrival i is reached, its record flag and all later ones are independent of the past, so the hidden instance
can be averaged out: index (i, x) of an array is arrival i + 1 with record flag x, and Q and V are means over instances.
Only E[A^2] needs more, the second moment of V over instances, which has a recursion of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup import kappa
from rampup import policy as policies
from rampup.diagnostics import Moments, Snapshot
from rampup.features import Features, OneHot, Polynomial
from rampup.kappa import Kappa
from rampup.types import PolicyFn, Real, Theta

RecordProbs = Float[Array, " arrival"]
PerArrival = Float[Array, " arrival"]
PerState = Float[Array, "arrival flag"]


class BCPPolicy(NamedTuple):
    """ln pi(accept|i,x) and ln pi(reject|i,x)."""

    log_accept: PerState
    log_reject: PerState


def threshold_policy(n: int, count: int | Int[Array, ""]) -> BCPPolicy:
    """Let `count` arrivals pass, then accept the first record."""
    accepts = (jnp.arange(n) >= count)[:, None] & jnp.asarray([False, True])[None, :]
    return BCPPolicy(jnp.where(accepts, 0.0, -jnp.inf), jnp.where(accepts, -jnp.inf, 0.0))


def naive_policy(n: int) -> BCPPolicy:
    """Accept with probability 1/2 whatever is seen."""
    half = jnp.full((n, 2), -jnp.log(2.0))
    return BCPPolicy(half, half)


def states(n: int) -> Float[Array, "arrival flag 2"]:
    """The observation (i/n, x) of every state."""
    fractions = jnp.arange(1, n + 1) / n
    flags = jnp.broadcast_to(jnp.asarray([0.0, 1.0]), (n, 2))
    return jnp.stack([jnp.broadcast_to(fractions[:, None], (n, 2)), flags], axis=-1)


def tabulated(policy_fn: PolicyFn, n: int) -> BCPPolicy:
    """Any policy as a table over all states."""
    log_probs = jax.vmap(jax.vmap(policy_fn))(states(n))
    return BCPPolicy(log_probs[..., 1], log_probs[..., 0])


def log_linear_policy(features: Features, theta: Theta, n: int) -> BCPPolicy:
    """pi_theta as a table."""
    return tabulated(lambda observation: policies.log_probs(features, theta, observation[None, :]), n)


def log_flag_probs(record_probs: RecordProbs) -> PerState:
    """ln of the chance of each record flag."""
    return jnp.stack([jnp.log1p(-record_probs), jnp.log(record_probs)], axis=1)


def log_visitation(record_probs: RecordProbs, policy: BCPPolicy) -> PerState:
    """ln d^pi(i, x): the chance of rejecting all before i, times that of flag x."""
    log_flags = log_flag_probs(record_probs)
    log_go_on = jnp.logaddexp(*(log_flags + policy.log_reject).T)
    log_reach = jnp.cumsum(jnp.concatenate([jnp.zeros(1), log_go_on[:-1]]))
    return log_reach[:, None] + log_flags


class Values(NamedTuple):
    """Means over instances, entropy bonus included."""

    accept: PerState
    reject: PerState
    state: PerState
    start: Real
    ahead: PerArrival
    """The value of arriving at i + 1, before its flag is seen."""


def values(record_probs: RecordProbs, policy: BCPPolicy, regularisation: Real | float = 0.0) -> Values:
    """Q^{pi,lambda} of both actions, V^{pi,lambda}, and the value of the whole game."""
    reward = _win_probs(record_probs)
    accept_prob, reject_prob = jnp.exp(policy.log_accept), jnp.exp(policy.log_reject)
    bonus = regularisation * _entropies(policy)
    flag_probs = jnp.exp(log_flag_probs(record_probs))
    earned = jnp.sum(flag_probs * (accept_prob * reward + bonus), axis=1)
    arriving = _backward(earned, jnp.sum(flag_probs * reject_prob, axis=1))
    ahead = jnp.concatenate([arriving[1:], jnp.zeros(1)])
    accept = reward + _surprise(policy.log_accept, regularisation)
    reject = ahead[:, None] + _surprise(policy.log_reject, regularisation)
    state = accept_prob * reward + reject_prob * ahead[:, None] + bonus
    return Values(accept, reject, state, arriving[0], ahead)


def _win_probs(record_probs: RecordProbs) -> PerState:
    """The reward of accepting: nothing without a record, else the chance that no record follows."""
    log_none = jnp.log1p(-record_probs)
    log_none_later = jnp.concatenate([jnp.cumsum(log_none[::-1])[::-1][1:], jnp.zeros(1)])
    return jnp.stack([jnp.zeros_like(record_probs), jnp.exp(log_none_later)], axis=1)


def _entropies(policy: BCPPolicy) -> PerState:
    return jax.vmap(jax.vmap(policies.entropy))(jnp.stack(policy, axis=-1))


def _surprise(log_probs: PerState, regularisation: Real | float) -> PerState:
    """lambda ln 1/pi; exactly zero without regularisation, even where pi is zero."""
    return jnp.where(jnp.asarray(regularisation) > 0, -regularisation * log_probs, 0.0)


def _backward(constant: PerArrival, slope: PerArrival) -> PerArrival:
    """Solve y_i = constant_i + slope_i y_(i+1), y_(n+1) = 0, in logarithmic depth."""

    def compose(later, earlier):
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    return jax.lax.associative_scan(compose, (constant, slope), reverse=True)[0]


class Optimum(NamedTuple):
    """The optimal policy, how many arrivals it lets pass, and its value."""

    policy: BCPPolicy
    threshold: Int[Array, ""]
    value: Real


def optimum(record_probs: RecordProbs) -> Optimum:
    """The optimal policy by dynamic programming: accept a record that is worth no less than going on."""
    reward = _win_probs(record_probs)[:, 1]

    def back(ahead, arrival):
        prob, win = arrival
        return (1 - prob) * ahead + prob * jnp.maximum(win, ahead), win < ahead

    value, waits = jax.lax.scan(back, jnp.zeros(()), (record_probs, reward), reverse=True)
    n = len(record_probs)
    threshold = jnp.max(jnp.where(waits, jnp.arange(1, n + 1), 0))
    return Optimum(threshold_policy(n, threshold), threshold, value)


def _fisher_coefficient(behaviour_accept: PerState, policy: BCPPolicy) -> PerState:
    """ln of q (1-p)^2 + (1-q) p^2: the mean squared score over phi phi', acting by q and differentiating at p."""
    with_accept = jnp.log(behaviour_accept) + 2 * policy.log_reject
    return jnp.logaddexp(with_accept, jnp.log1p(-behaviour_accept) + 2 * policy.log_accept)


class Measure(NamedTuple):
    """A distribution of state-action pairs: ln of the chance of each state, and of accepting there."""

    log_state: PerState
    accept: PerState


def on_policy(record_probs: RecordProbs, policy: BCPPolicy) -> Measure:
    """d^pi(s, a)."""
    return Measure(log_visitation(record_probs, policy), jnp.exp(policy.log_accept))


def grafted(record_probs: RecordProbs, policy: BCPPolicy) -> Measure:
    """d~^pi(s, a): states as under pi, then a uniform action."""
    log_state = log_visitation(record_probs, policy)
    return Measure(log_state, jnp.full_like(log_state, 0.5))


def log_fisher_weights(measure: Measure, policy: BCPPolicy) -> PerState:
    """ln of the weight of phi(s) phi(s)' in Sigma_measure^theta; with one-hot features, ln of its diagonal."""
    return measure.log_state + _fisher_coefficient(measure.accept, policy)


# Large enough that the loop costs nothing, small enough that a block of phi stays in cache.
_BLOCK = 1024


def fisher(features: Features, weights: PerState) -> Float[Array, "feat feat"]:
    """Sum of weight phi phi' over all states, in blocks of arrivals so that memory stays O(n)."""
    return _sum_over_states(features, lambda phi, part: jnp.einsum("ixf,ix,ixg->fg", phi, part, phi), weights)


def feature_sum(features: Features, weights: PerState) -> Theta:
    """Sum of weight phi over all states."""
    if isinstance(features, OneHot):
        return weights.ravel()
    return _sum_over_states(features, lambda phi, part: jnp.einsum("ixf,ix->f", phi, part), weights)


def _sum_over_states(features: Features, of_block: Callable[[Array, Array], Array], weights: PerState) -> Array:
    n = len(weights)
    size = min(n, _BLOCK)
    num_blocks = -(-n // size)
    padding = ((0, num_blocks * size - n), (0, 0))
    observations = jnp.pad(states(n), (*padding, (0, 0))).reshape(num_blocks, size, 2, 2)
    padded = jnp.pad(weights, padding).reshape(num_blocks, size, 2)

    def add(total, block):
        phi = jax.vmap(jax.vmap(features.phi))(block[0])
        return total + of_block(phi, block[1]), None

    nothing = of_block(jnp.zeros((size, 2, features.size)), jnp.zeros((size, 2)))
    return jax.lax.scan(add, nothing, (observations, padded))[0]


class Contrast(NamedTuple):
    """Mean and mean square over instances of c = Q_m(accept) - Q_m(reject).

    With p = pi(accept), the advantage is (1-p) c or -p c and the score (1-p) phi or -p phi: all that the sums over
    state-action pairs need.
    """

    mean: PerState
    square: PerState


def contrast(record_probs: RecordProbs, policy: BCPPolicy, regularisation: Real | float = 0.0) -> Contrast:
    """What accepting is worth over rejecting, in the mean and in the square.

    Q_m(accept) is 1 if no record follows and Q_m(reject) is V_m(i+1), so that three recursions are needed: the mean of
    V_m, its mean square, and its value on the one instance with no further record.
    """
    q = values(record_probs, policy, regularisation)
    win, mean = _win_probs(record_probs), q.ahead[:, None]
    accept, reject = jnp.exp(policy.log_accept), jnp.exp(policy.log_reject)
    bonus = regularisation * _entropies(policy)
    flag_probs = jnp.exp(log_flag_probs(record_probs))

    def ahead(constant, slope):
        return jnp.concatenate([_backward(constant, slope)[1:], jnp.zeros(1)])[:, None]

    barren = ahead(bonus[:, 0], reject[:, 0])
    # V_m = accept 1[last record] + reject V_m' + bonus; squared, and averaged over the instance.
    squared = (
        accept**2 * win + bonus**2 + 2 * accept * reject * win * barren + 2 * bonus * (accept * win + reject * mean)
    )
    mean_square = ahead(jnp.sum(flag_probs * squared, axis=1), jnp.sum(flag_probs * reject**2, axis=1))
    offset = _surprise(policy.log_accept, regularisation) - _surprise(policy.log_reject, regularisation)
    return Contrast(q.accept - q.reject, win + mean_square + offset**2 - 2 * win * barren + 2 * offset * (win - mean))


def moments(features: Features, policy: BCPPolicy, contrast: Contrast, measure: Measure) -> Moments:
    """The sums over a measure that losses and errors are made of."""
    weights = jnp.exp(log_fisher_weights(measure, policy))
    shift = jnp.exp(measure.log_state) * (measure.accept - jnp.exp(policy.log_accept))
    return Moments(
        fisher=fisher(features, weights),
        cross=feature_sum(features, weights * contrast.mean),
        square=jnp.sum(weights * contrast.square),
        advantage=jnp.sum(shift * contrast.mean),
        score=feature_sum(features, shift),
    )


def gradient(record_probs: RecordProbs, features: Features, theta: Theta, regularisation: Real | float = 0.0) -> Theta:
    """grad_theta V^{pi_theta,lambda} by the policy gradient theorem."""
    policy = log_linear_policy(features, theta, len(record_probs))
    q = values(record_probs, policy, regularisation)
    log_weight = log_visitation(record_probs, policy) + policy.log_accept + policy.log_reject
    return feature_sum(features, jnp.exp(log_weight) * (q.accept - q.reject))


def potential(record_probs: RecordProbs, target: BCPPolicy, policy: BCPPolicy) -> Real:
    """Phi(pi), the Lyapunov potential of a policy against the target."""

    def divergence(log_wanted, log_given):
        return jnp.where(log_wanted > -jnp.inf, jnp.exp(log_wanted) * (log_wanted - log_given), 0.0)

    per_state = sum(divergence(wanted, given) for wanted, given in zip(target, policy, strict=True))
    visits = jnp.exp(log_visitation(record_probs, target))
    return jnp.sum(jnp.where(visits > 0, visits * per_state, 0.0))


def relative_condition(features: Features, policy: BCPPolicy, target: Measure, sampler: Measure) -> Kappa:
    """Kappa of a sampler against a target, at the policy's theta (Def. 4)."""
    n = len(policy.log_accept)
    log_target, log_sampler = (log_fisher_weights(measure, policy) for measure in (target, sampler))
    if isinstance(features, OneHot):
        return kappa.of_table(log_target.ravel(), log_sampler.ravel())
    if isinstance(features, Polynomial) and features.degrees[1] > 1:
        # Polynomials in f times powers of x are free on x = 0 and on x = 1 separately: kappa is the larger of the two.
        nodes = jnp.arange(1, n + 1) / n
        by_flag = jax.vmap(lambda *weights: kappa.of_polynomials(nodes, features.degrees[0], *weights), in_axes=1)
        ends = by_flag(log_target, log_sampler)
        return Kappa(jnp.max(ends.ln), jnp.sum(ends.rank), jnp.zeros(()))
    rows = jax.vmap(features.phi)(states(n).reshape(2 * n, 2))
    return kappa.of_rows(rows, log_target.ravel(), log_sampler.ravel(), jnp.max(jnp.abs(rows), axis=1))


def snapshot(
    record_probs: RecordProbs,
    features: Features,
    theta: Theta,
    target: BCPPolicy,
    sampler: BCPPolicy | None = None,
    regularisation: Real | float = 0.0,
) -> Snapshot:
    """Everything exact about theta, set against the policy `target`, sampling on-policy or grafted from `sampler`."""
    policy = log_linear_policy(features, theta, len(record_probs))
    wanted = on_policy(record_probs, target)
    sampled = on_policy(record_probs, policy) if sampler is None else grafted(record_probs, sampler)
    worth = contrast(record_probs, policy, regularisation)
    return Snapshot(
        value=values(record_probs, policy, regularisation).start,
        target_value=values(record_probs, target, regularisation).start,
        potential=potential(record_probs, target, policy),
        target=moments(features, policy, worth, wanted),
        sampler=moments(features, policy, worth, sampled),
        ln_kappa=relative_condition(features, policy, wanted, sampled).ln,
    )
