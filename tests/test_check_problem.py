"""The conformance suite accepts a problem written outside the package and names the rule that a broken one breaks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rampup


class Prophet(rampup.Problem):
    """Accept one of n uniform prizes; the reward is the prize."""

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True, default=2)

    def draw(self, key):
        return jax.random.uniform(key, (self.horizon,))

    def init(self, instance):
        return jnp.zeros((), dtype=int)

    def observe(self, instance, state):
        return jnp.stack([(state + 1) / self.horizon, instance[state]])

    def variables(self, observation):
        return observation[None, :]

    def step(self, instance, state, action):
        takes = action == 1
        return state + 1, jnp.where(takes, instance[state], 0.0), ~takes & (state + 1 < self.horizon)

    def bounds(self):
        return [0.0, 0.0], [1.0, 1.0]

    def degrees(self, degree):
        return (degree, degree)


def test_a_problem_of_ones_own_passes():
    rampup.check_problem(Prophet(5))


class NotAVector(Prophet):
    def observe(self, instance, state):
        return instance[state]


class Matrix(Prophet):
    def variables(self, observation):
        return observation[:, None, None]


class ThreeRows(Prophet):
    def variables(self, observation):
        return jnp.stack([observation] * 3)


class FalselyShared(Prophet):
    shared_variables = (0, 1)

    def variables(self, observation):
        return jnp.stack([observation * jnp.array([1.0, 0.0]), observation])


class ShortBounds(Prophet):
    def bounds(self):
        return [0.0], [1.0]


class ShortDegrees(Prophet):
    def degrees(self, degree):
        return (degree,)


class GrowingState(Prophet):
    def step(self, instance, state, action):
        next_state, reward, goes_on = super().step(instance, state, action)
        return jnp.stack([next_state, next_state]), reward, goes_on


class WholeReward(Prophet):
    def step(self, instance, state, action):
        next_state, _, goes_on = super().step(instance, state, action)
        return next_state, action, goes_on


class VagueEnd(Prophet):
    def step(self, instance, state, action):
        next_state, reward, goes_on = super().step(instance, state, action)
        return next_state, reward, goes_on.astype(float)


class NeverEnds(Prophet):
    def step(self, instance, state, action):
        next_state, reward, _ = super().step(instance, state, action)
        return next_state, reward, jnp.asarray(True)


class Unbounded(Prophet):
    def observe(self, instance, state):
        return 2 * super().observe(instance, state)


class Infinite(Prophet):
    def observe(self, instance, state):
        return super().observe(instance, state) / 0.0


class LogVariables(Prophet):
    def variables(self, observation):
        return jnp.log(observation - 0.5)[None, :]


class Generous(Prophet):
    def step(self, instance, state, action):
        next_state, reward, goes_on = super().step(instance, state, action)
        return next_state, reward + 1.0, goes_on


class Indebted(Prophet):
    def step(self, instance, state, action):
        next_state, reward, goes_on = super().step(instance, state, action)
        return next_state, reward - 0.5, goes_on


class SecretDice(Prophet):
    def draw(self, key):
        return jnp.asarray(np.random.default_rng().random(self.horizon))


class Loose(Prophet):
    note: str = "a string that is not static"


class LowCeiling(Prophet):
    def in_hindsight(self, instance):
        return -1.0


class ShortRule(Prophet):
    rules = {"short": lambda problem: lambda observation: jnp.zeros(1)}


class RuleOfPlainProbabilities(Prophet):
    rules = {"plain": lambda problem: lambda observation: jnp.array([0.5, 0.5])}


BROKEN = {
    NotAVector: "`observe` must return a vector, got shape ().",
    Matrix: "`variables` must return a row per action",
    ThreeRows: "`variables` must return a row per action",
    FalselyShared: "`shared_variables` names 1, which differs between the actions.",
    ShortBounds: "`bounds` must give 2 lows and highs",
    ShortDegrees: "`degrees` must give a number for each of the 2 variables, got 1.",
    GrowingState: "`step` must return a state of the same structure",
    WholeReward: "`step` must return the reward as one floating-point number",
    VagueEnd: "`step` must return whether the episode goes on as one true or false",
    NeverEnds: "the episode must be over after `horizon` decisions.",
    Unbounded: "`observe` must stay within `bounds`",
    Infinite: "`observe` must return finite numbers only.",
    LogVariables: "`variables` must return finite numbers only.",
    Generous: "`step` must return rewards in [0, 1], got",
    Indebted: "`step` must return rewards in [0, 1], got -0.5.",
    SecretDice: "the same key must draw the same instance",
    LowCeiling: "`in_hindsight` must be at least what any player earns, got -1.0 where one earned",
    ShortRule: "the rule 'short' must return ln of 2 probabilities, got",
    RuleOfPlainProbabilities: "the rule 'plain' must return ln of 2 probabilities, got",
    Loose: "a field that is not a JAX array must be `eqx.field(static=True)`",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_problem_is_told_which_rule_it_breaks(broken):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        rampup.check_problem(broken(5))
    assert str(caught.value).startswith(BROKEN[broken])


def test_anything_else_is_refused():
    with pytest.raises(ValueError, match=r"must be an instance of a subclass of rampup\.Problem"):
        rampup.check_problem(object())
    with pytest.raises(ValueError, match="`horizon` must be a whole number of at least 1, got 0"):
        rampup.check_problem(Prophet(0))
