"""ADW in value form: give each slot to an advertiser with budget left, for as much revenue as can be had."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup import arguments
from rampup.problems.adw import ADWInstance, as_auction, dearest_and_most, draw_bids, highest_bids, one_each
from rampup.problems.base import MOST_ARRIVALS, Problem
from rampup.problems.distributions import Distribution
from rampup.problems.rows import TrainingRows
from rampup.types import Action, Flag, Key, Observation, Reward, Variables


class ADWValueState(NamedTuple):
    """The position of the present slot, and what is left of each budget."""

    position: Int[Array, ""]
    budgets: Float[Array, " advertiser"]


class ADWValue(Problem):
    """n advertisers, m slots; a slot pays its bid as a part of the most there can be; action 0 gives it to nobody."""

    shared_variables = (0,)
    size_parameters = ("n", "m")
    usual_learning_rate = 1.0
    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    scale: Float[Array, ""]
    """The sum of the budgets, or of the highest bids if that is less: rewards are parts of it."""
    bid_distributions: Distribution | tuple[Distribution, ...]
    other_budgets: Float[Array, " advertiser"] | None
    """What the advertisers begin with; nothing where it is 1 for all."""

    rows: TrainingRows | None

    def __init__(self, n: int, m: int, bids: Any = "uniform", budgets: Any = 1.0, data: Any = None):
        self.horizon = arguments.integer("m", m, least=1, most=MOST_ARRIVALS)
        self.num_actions = arguments.integer("n", n, least=1, most=MOST_ARRIVALS) + 1
        self.bid_distributions, self.other_budgets, self.rows = as_auction(bids, budgets, data, n, self.horizon)
        _, most = dearest_and_most(self.distributions(), self.budgets(), self.horizon)
        if most == 0:
            raise ValueError(f"`bids` must not all be 0, got {bids!r:.80}.")
        self.scale = jnp.asarray(most, dtype=float)

    @property
    def bid_unit(self) -> float:
        """What a bid of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[0]

    def distributions(self) -> tuple[Distribution, ...]:
        """The bids of each advertiser."""
        return one_each(self.bid_distributions, self.num_actions - 1)

    def budgets(self) -> np.ndarray:
        """What each advertiser begins with."""
        return np.ones(self.num_actions - 1) if self.other_budgets is None else np.asarray(self.other_budgets, float)

    def draw(self, key: Key) -> ADWInstance:
        return draw_bids(self, key)

    def init(self, instance: ADWInstance) -> ADWValueState:
        dtype = instance.bids.dtype
        budgets = jnp.ones(self.num_actions - 1, dtype) if self.other_budgets is None else self.other_budgets
        return ADWValueState(jnp.zeros((), jnp.int32), budgets.astype(dtype))

    def observe(self, instance: ADWInstance, state: ADWValueState) -> Observation:
        fraction = (state.position + 1).astype(state.budgets.dtype) / self.horizon
        return jnp.concatenate([fraction[None], instance.bids[state.position], state.budgets])

    def variables(self, observation: Observation) -> Variables:
        num_advertisers = self.num_actions - 1
        # Nobody is a virtual advertiser that bids 0 and has no budget.
        bids = jnp.pad(observation[1 : 1 + num_advertisers], (1, 0))
        budgets = jnp.pad(observation[1 + num_advertisers :], (1, 0))
        return jnp.stack([jnp.full_like(bids, observation[0]), bids, budgets], axis=1)

    def step(self, instance: ADWInstance, state: ADWValueState, action: Action) -> tuple[ADWValueState, Reward, Flag]:
        bids = instance.bids[state.position]
        is_winner = jnp.arange(self.num_actions - 1, dtype=action.dtype) == action - 1
        paid = jnp.where(is_winner & (state.budgets >= bids), bids, 0.0)
        goes_on = state.position + 1 < self.horizon
        return ADWValueState(state.position + 1, state.budgets - paid), jnp.sum(paid) / self.scale, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * (2 * self.num_actions - 1), [1.0, *highest_bids(self), *self.budgets().tolist()]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 3
