"""The prophet problem: prizes are shown one after the other; take one, and what it is worth is what you get."""

import equinox as eqx
import jax
import jax.numpy as jnp

import rampup
from rampup import arguments


class Prophet(rampup.Problem):
    """n prizes, the i-th uniform on [0, i/n]: the later, the better they may be."""

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    size_parameters = ("n",)
    usual_learning_rate = 1.0
    rules = {"half_of_the_prophet": lambda problem: Above(half_of_the_prophet(problem))}

    def __init__(self, n: int = 20):
        self.horizon, self.num_actions = arguments.integer("n", n, least=1), 2

    def draw(self, key):
        return jax.random.uniform(key, (self.horizon,)) * jnp.arange(1.0, self.horizon + 1) / self.horizon

    def init(self, instance):
        return jnp.zeros((), dtype=int)

    def observe(self, instance, state):
        return jnp.stack([(state + 1).astype(instance.dtype) / self.horizon, instance[state]])

    def variables(self, observation):
        return observation[None, :]

    def step(self, instance, state, action):
        takes = action == 1
        return state + 1, jnp.where(takes, instance[state], 0.0), ~takes & (state + 1 < self.horizon)

    def bounds(self):
        return [0.0, 0.0], [1.0, 1.0]

    def degrees(self, degree):
        return (degree, degree)

    def in_hindsight(self, instance):
        """Exact: whoever sees all prizes takes the best."""
        return instance.max()


class Above(eqx.Module):
    """Take the first prize of at least a given worth."""

    least: jax.Array

    def __call__(self, observation):
        takes = observation[1] >= self.least
        return jnp.where(jnp.stack([takes, ~takes]), -jnp.inf, 0.0)


def half_of_the_prophet(problem):
    """Half of what the prophet expects: with this threshold one gets at least half of it, whatever the prizes are."""
    worth, highest = jnp.linspace(0.0, 1.0, 1001), jnp.arange(1.0, problem.horizon + 1) / problem.horizon
    # The chance that no prize is above: P(max <= x), of independent uniforms on [0, i/n].
    below = jnp.prod(jnp.minimum(worth[:, None] / highest[None, :], 1.0), axis=1)
    return jnp.trapezoid(1 - below, worth) / 2
