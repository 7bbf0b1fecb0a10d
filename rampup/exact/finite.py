"""Finite latent MDPs: every quantity of the paper's sections 3-5 and appendix, computed exactly.

Time runs forward: index t of an array is the step taken after t others, so that H - t steps are left, and the paper's
A_{m,h} under v_{m,H-h} is `advantages[t]` under `measure[t]` with t = H - h. A *measure* is the paper's collection v
with the mixing weights inside, w_m v_{m,t}(s, a), on live states; sums over it are plain sums.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from rampup import arguments, kappa
from rampup.diagnostics import Moments, Snapshot
from rampup.kappa import Kappa
from rampup.types import Real, Theta

StatePolicy = Float[Array, "state action"]
"""ln pi(a|s) of a history-independent policy."""
FeatureTable = Float[Array, "state action feat"]
Measure = Float[Array, "time mdp state action"]


class FiniteLMDP(eqx.Module):
    """MDPs that share states, actions and horizon; one is drawn by `weights` for an episode and never shown."""

    horizon: int = eqx.field(static=True)
    weights: Float[Array, " mdp"]
    initial: Float[Array, "mdp state"]
    transition: Float[Array, "mdp state action next"]
    reward: Float[Array, "mdp state action"]
    is_live: Bool[Array, " state"]
    """False for absorbing end states, which count in no sum."""

    def __init__(self, weights: Any, initial: Any, transition: Any, reward: Any, horizon: int, is_live: Any = None):
        require_double_precision()
        self.horizon = arguments.integer("horizon", horizon, least=1)
        transitions = arguments.distributions_over_last_axis("transition", transition, ndim=4)
        num_mdps, num_states, num_actions, _ = transitions.shape
        arguments.shaped("transition", transitions, (num_mdps, num_states, num_actions, num_states))
        rewards = arguments.probabilities("reward", reward, ndim=3)
        live = np.ones(num_states, bool) if is_live is None else np.asarray(is_live)
        if live.dtype != bool:
            raise ValueError(f"`is_live` must be an array of true and false, got {live.dtype}.")
        arguments.shaped("is_live", live, (num_states,))
        self.weights = jnp.asarray(
            arguments.shaped("weights", arguments.distributions_over_last_axis("weights", weights, ndim=1), (num_mdps,))
        )
        self.initial = jnp.asarray(
            arguments.shaped(
                "initial", arguments.distributions_over_last_axis("initial", initial, ndim=2), (num_mdps, num_states)
            )
        )
        self.transition = jnp.asarray(transitions)
        self.reward = jnp.asarray(arguments.shaped("reward", rewards, (num_mdps, num_states, num_actions)))
        self.is_live = jnp.asarray(live)
        if rewards[:, ~live].any() or transitions[:, ~live][..., live].any():
            raise ValueError("`is_live` marks an end state that pays a reward or can be left again.")

    @property
    def num_states(self) -> int:
        return self.transition.shape[1]

    @property
    def num_actions(self) -> int:
        return self.transition.shape[2]


def require_double_precision() -> None:
    """Refuse to compute exact answers in single precision."""
    if jnp.result_type(float) != jnp.float64:
        raise ValueError("exact answers need 64-bit numbers: call `jax.config.update('jax_enable_x64', True)` first.")


def tabular_features(num_states: int, num_actions: int) -> FeatureTable:
    """One-hot features of every state-action pair: the softmax policy."""
    return jnp.eye(num_states * num_actions).reshape(num_states, num_actions, -1)


def log_linear_policy(features: FeatureTable, theta: Theta) -> StatePolicy:
    """ln pi_theta(a|s)."""
    return jax.nn.log_softmax(features @ theta, axis=1)


def scores(features: FeatureTable, theta: Theta) -> FeatureTable:
    """grad_theta ln pi_theta(a|s) for every state and action."""
    probs = jnp.exp(log_linear_policy(features, theta))
    return features - jnp.einsum("sa,saf->sf", probs, features)[:, None, :]


class Values(NamedTuple):
    """V, Q and A = Q - V of a policy in each MDP, entropy bonus included."""

    state: Float[Array, "time mdp state"]
    action: Measure
    advantage: Measure


def values(lmdp: FiniteLMDP, policy: StatePolicy, regularisation: Real | float = 0.0) -> Values:
    """V^{pi,lambda}, Q^{pi,lambda} and A^{pi,lambda} (section 3 and appendix A) by backward induction."""
    probs = jnp.exp(policy)[None]
    bonus = _entropy_bonus(lmdp, policy, regularisation)

    def back(after, _):
        action = lmdp.reward + bonus + jnp.einsum("msan,mn->msa", lmdp.transition, after)
        # An action never taken adds nothing, though its bonus ln 1/pi is infinite.
        state = jnp.sum(jnp.where(probs > 0, probs * action, 0.0), axis=2)
        return state, (state, action)

    nothing = jnp.zeros(lmdp.initial.shape)
    _, (state, action) = jax.lax.scan(back, nothing, None, length=lmdp.horizon, reverse=True)
    return Values(state, action, action - state[..., None])


def _entropy_bonus(
    lmdp: FiniteLMDP, policy: StatePolicy, regularisation: Real | float
) -> Float[Array, "1 state action"]:
    """lambda ln 1/pi(a|s) on live states; exactly zero without regularisation, even where pi is zero."""
    counts = lmdp.is_live[:, None] & (jnp.asarray(regularisation) > 0)
    return jnp.where(counts, -regularisation * policy, 0.0)[None]


def value(lmdp: FiniteLMDP, policy: StatePolicy, regularisation: Real | float = 0.0) -> Real:
    """V^{pi,lambda} = sum_m w_m E_{s ~ nu_m} V_{m,H}(s)."""
    first = values(lmdp, policy, regularisation).state[0]
    return jnp.einsum("m,ms,ms->", lmdp.weights, lmdp.initial, first)


def visitation(lmdp: FiniteLMDP, policy: StatePolicy) -> Float[Array, "time mdp state"]:
    """d^pi_{m,t}(s), the probability of being in s at step t of MDP m (Def. 1)."""
    probs = jnp.exp(policy)

    def forward(now, _):
        return jnp.einsum("ms,sa,msan->mn", now, probs, lmdp.transition), now

    return jax.lax.scan(forward, lmdp.initial, None, length=lmdp.horizon)[1]


def on_policy(lmdp: FiniteLMDP, policy: StatePolicy) -> Measure:
    """w_m d^pi_{m,t}(s, a) on live states."""
    return _state_measure(lmdp, policy)[..., None] * jnp.exp(policy)[None, None]


def grafted(lmdp: FiniteLMDP, policy: StatePolicy) -> Measure:
    """w_m d~^pi_{m,t}(s, a): states as under pi, then a uniform action."""
    uniform = jnp.full((1, 1, lmdp.num_states, lmdp.num_actions), 1 / lmdp.num_actions)
    return _state_measure(lmdp, policy)[..., None] * uniform


def _state_measure(lmdp: FiniteLMDP, policy: StatePolicy) -> Float[Array, "time mdp state"]:
    weights = lmdp.weights[None, :, None] * lmdp.is_live[None, None, :].astype(float)
    return weights * visitation(lmdp, policy)


def _sum_over(measure: Measure, quantity: Float[Array, "..."]) -> Real:
    # A quantity may be infinite where the measure is zero.
    return jnp.sum(jnp.where(measure > 0, measure * quantity, 0.0))


def moments(score: FeatureTable, advantage: Measure, measure: Measure) -> Moments:
    """The sums over a measure from which Fisher matrix, gradient, loss and fitting error are made."""
    per_pair = jnp.sum(measure, axis=(0, 1))
    weighted_advantage = jnp.where(measure > 0, measure * advantage, 0.0)
    return Moments(
        fisher=jnp.einsum("sa,saf,sag->fg", per_pair, score, score),
        cross=jnp.einsum("tmsa,saf->f", weighted_advantage, score),
        square=_sum_over(measure, advantage**2),
        advantage=jnp.sum(weighted_advantage),
        score=jnp.einsum("sa,saf->f", per_pair, score),
    )


def gradient(lmdp: FiniteLMDP, features: FeatureTable, theta: Theta, regularisation: Real | float = 0.0) -> Theta:
    """grad_theta V^{pi_theta,lambda} by the policy gradient theorem for latent MDPs (appendix D.1)."""
    policy = log_linear_policy(features, theta)
    weighted = on_policy(lmdp, policy) * values(lmdp, policy, regularisation).action
    return jnp.einsum("tmsa,saf->f", weighted, scores(features, theta))


def potential(lmdp: FiniteLMDP, target: StatePolicy, policy: StatePolicy) -> Real:
    """Phi(pi) = sum under d* of ln pi*(a|s) / pi(a|s), the Lyapunov potential (appendix A.1)."""
    return _sum_over(on_policy(lmdp, target), (target - policy)[None, None])


def performance_difference(
    lmdp: FiniteLMDP, first: StatePolicy, second: StatePolicy, regularisation: Real | float = 0.0
) -> Real:
    """V^first - V^second as the sum under d^first of A^second + lambda ln second/first (performance difference)."""
    advantage = values(lmdp, second, regularisation).advantage
    log_ratio = -_entropy_bonus(lmdp, second, regularisation) + _entropy_bonus(lmdp, first, regularisation)
    return _sum_over(on_policy(lmdp, first), advantage + log_ratio[None])


def relative_condition(features: FeatureTable, theta: Theta, target: Measure, sampler: Measure) -> Kappa:
    """Kappa of a sampler against a target, at theta (Def. 4)."""
    rows = scores(features, theta).reshape(-1, features.shape[-1])
    log_target, log_sampler = (jnp.log(jnp.sum(measure, axis=(0, 1))).ravel() for measure in (target, sampler))
    # Scores are differences of features: their errors are those of the features of the state.
    scales = jnp.broadcast_to(jnp.max(jnp.abs(features), axis=(1, 2))[:, None], features.shape[:2])
    return kappa.of_rows(rows, log_target, log_sampler, scales.ravel())


def snapshot(
    lmdp: FiniteLMDP,
    features: FeatureTable,
    theta: Theta,
    target: StatePolicy,
    sampler: StatePolicy | None = None,
    regularisation: Real | float = 0.0,
) -> Snapshot:
    """Everything exact about theta, set against the policy `target`, sampling on-policy or grafted from `sampler`."""
    policy, score = log_linear_policy(features, theta), scores(features, theta)
    advantage = values(lmdp, policy, regularisation).advantage
    wanted = on_policy(lmdp, target)
    sampled = on_policy(lmdp, policy) if sampler is None else grafted(lmdp, sampler)
    return Snapshot(
        value=value(lmdp, policy, regularisation),
        target_value=value(lmdp, target, regularisation),
        potential=potential(lmdp, target, policy),
        target=moments(score, advantage, wanted),
        sampler=moments(score, advantage, sampled),
        ln_kappa=relative_condition(features, theta, wanted, sampled).ln,
    )
