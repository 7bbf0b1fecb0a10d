"""A finite latent MDP as a problem that can be played: the hidden MDP and all its dice are the instance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rampup
from rampup.exact.finite import FiniteLMDP


class FiniteProblem(rampup.Problem):
    """Plays an LMDP all of whose states are live; the observation is the state, the variables are its feature rows."""

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    lmdp: FiniteLMDP
    features: jax.Array

    def __init__(self, lmdp, features):
        self.horizon, self.num_actions = lmdp.horizon, lmdp.num_actions
        self.lmdp, self.features = lmdp, features

    def draw(self, key):
        uniforms = jax.random.uniform(key, (self.horizon + 2,))
        mdp = _pick(self.lmdp.weights, uniforms[0])
        return mdp, _pick(self.lmdp.initial[mdp], uniforms[1]), uniforms[2:]

    def init(self, instance):
        return jnp.zeros((), int), instance[1]

    def observe(self, instance, state):
        return state[1].astype(float)[None]

    def variables(self, observation):
        return self.features[observation[0].astype(int)]

    def step(self, instance, state, action):
        mdp, _, uniforms = instance
        time, now = state
        following = _pick(self.lmdp.transition[mdp, now, action], uniforms[time])
        return (time + 1, following), self.lmdp.reward[mdp, now, action], time + 1 < self.horizon

    def bounds(self):
        return [0.0], [float(self.lmdp.num_states - 1)]

    def degrees(self, degree):
        return (degree,) * self.features.shape[-1]


def _pick(probs, uniform):
    return jnp.sum(uniform >= jnp.cumsum(probs)[:-1])


def random_finite_problem(seed, num_actions, num_features=5):
    """Three MDPs, four states, three steps, with features of no structure."""
    rng = np.random.default_rng(seed)
    num_mdps, num_states, horizon = 3, 4, 3
    lmdp = FiniteLMDP(
        rng.dirichlet(np.ones(num_mdps)),
        rng.dirichlet(np.ones(num_states), size=num_mdps),
        rng.dirichlet(np.ones(num_states), size=(num_mdps, num_states, num_actions)),
        rng.random((num_mdps, num_states, num_actions)),
        horizon,
    )
    features = jnp.asarray(rng.normal(size=(num_states, num_actions, num_features)))
    policies = [jnp.log(jnp.asarray(rng.dirichlet(np.ones(num_actions), size=num_states))) for _ in range(2)]
    problem = FiniteProblem(lmdp, features)
    identity = rampup.user_features(lambda row: row, num_features)
    theta, sampler_theta = jnp.asarray(rng.normal(size=(2, num_features)))
    return problem, identity, theta, sampler_theta, policies
