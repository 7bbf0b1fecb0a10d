"""Random finite latent MDPs that can be played."""

import jax.numpy as jnp
import numpy as np

import rampup
from rampup.exact.finite import FiniteLMDP
from rampup.exact.playable import FiniteProblem


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
