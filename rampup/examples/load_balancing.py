"""Online load balancing: jobs arrive one after the other and go to machines; all must be done as early as possible."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

import rampup
from rampup import arguments


class State(NamedTuple):
    """How many jobs came, and how long each machine is busy."""

    position: jax.Array
    loads: jax.Array


class LoadBalancing(rampup.Problem):
    """n jobs for m machines that a day has n/m hours for; a job takes up to an hour, on each machine another time.

    The return is the part of the day that is left when all jobs are done; nothing if they are not done by its end.
    """

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    shared_variables = (0,)
    size_parameters = ("n",)
    usual_features, usual_learning_rate = "monomial:2", 10.0
    rules = {"list_scheduling": lambda problem: ListScheduling(), "fastest": lambda problem: Fastest()}

    def __init__(self, n: int = 24, m: int = 3):
        self.horizon = arguments.integer("n", n, least=1)
        self.num_actions = arguments.integer("m", m, least=2)

    def draw(self, key):
        return jax.random.uniform(key, (self.horizon, self.num_actions))

    def init(self, instance):
        return State(jnp.zeros((), dtype=int), jnp.zeros_like(instance[0]))

    def observe(self, instance, state):
        clock = jnp.stack([(state.position + 1).astype(instance.dtype) / self.horizon])
        # What all machines have to do, whoever gets the job, decides nothing.
        ahead = state.loads - jnp.min(state.loads)
        return jnp.concatenate([clock, instance[state.position], ahead])

    def variables(self, observation):
        hours, ahead = jnp.split(observation[1:], 2)
        return jnp.stack([jnp.full_like(hours, observation[0]), hours, ahead], axis=1)

    def step(self, instance, state, action):
        is_chosen = jnp.arange(self.num_actions, dtype=action.dtype) == action
        loads = state.loads + jnp.where(is_chosen, instance[state.position], 0.0)
        goes_on = state.position + 1 < self.horizon
        reward = jnp.where(goes_on, 0.0, self._left(jnp.max(loads)))
        return State(state.position + 1, loads), reward, goes_on

    def _left(self, makespan):
        return jnp.maximum(1 - makespan * self.num_actions / self.horizon, 0.0)

    def bounds(self):
        m = self.num_actions
        return [0.0] * (2 * m + 1), [1.0] * (m + 1) + [float(self.horizon)] * m

    def degrees(self, degree):
        return (degree, degree, degree)

    def in_hindsight(self, instance):
        """A bound: who may split jobs among machines, but must have time for each of them alone, is done no later."""
        n, m = instance.shape
        # Of each job's parts, one for each machine, and of the makespan, which comes last.
        price = np.append(np.zeros(n * m), 1.0)
        busy = np.hstack([(instance[:, :, None] * np.eye(m)).reshape(n * m, m).T, -np.ones((m, 1))])
        shared = np.hstack([np.kron(np.eye(n), np.ones(m)), np.zeros((n, 1))])
        ends = [(0, None)] * (n * m) + [(instance.min(axis=1).max(), None)]
        solved = linprog(price, A_ub=busy, b_ub=np.zeros(m), A_eq=shared, b_eq=np.ones(n), bounds=ends)
        return max(1 - solved.fun * m / n, 0.0)


class ListScheduling(eqx.Module):
    """Graham's rule: the machine that would be done with the job first."""

    def __call__(self, observation):
        hours, ahead = jnp.split(observation[1:], 2)
        return surely(jnp.argmin(ahead + hours), len(hours))


class Fastest(eqx.Module):
    """The machine that does the job in the least time, whatever it has to do already."""

    def __call__(self, observation):
        hours, _ = jnp.split(observation[1:], 2)
        return surely(jnp.argmin(hours), len(hours))


def surely(action, num_actions):
    """ln of the probabilities of a policy that takes one action for sure."""
    return jnp.where(jnp.arange(num_actions) == action, 0.0, -jnp.inf)
