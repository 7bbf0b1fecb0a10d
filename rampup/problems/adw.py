"""ADW, AdWords in its decision form: give each slot to an advertiser with budget left until the revenue reaches V."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup import arguments
from rampup.problems.base import MOST_ARRIVALS, Problem
from rampup.problems.distributions import Distribution, Empirical, as_distribution
from rampup.problems.rows import TrainingRows, as_rows, refuse_both, unit_for
from rampup.types import Action, Flag, Key, Observation, Reward, Variables


class ADWInstance(NamedTuple):
    """What every advertiser bids for every slot."""

    bids: Float[Array, "slot advertiser"]


class ADWState(NamedTuple):
    """The position of the present slot, what is left of each budget, and the revenue so far."""

    position: Int[Array, ""]
    budgets: Float[Array, " advertiser"]
    revenue: Float[Array, ""]


class ADW(Problem):
    """n advertisers with budget 1, m slots, target V; action 0 gives the slot to nobody; the paper's section C.3."""

    shared_variables = (0, 3)
    size_parameters = ("n", "m", "V")
    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    target: Float[Array, ""]
    bid_distributions: Distribution | tuple[Distribution, ...]
    """Where there are rows, those of each advertiser apart; only the rows say how bids go together."""
    rows: TrainingRows | None
    budget: Float[Array, ""] | None
    """What every advertiser has at first; None for 1."""

    def __init__(self, n: int, m: int, V: float, bids: Any = "uniform", data: Any = None, budgets: float = 1.0):  # noqa: N803 (the paper's letters)
        self.horizon = arguments.integer("m", m, least=1, most=MOST_ARRIVALS)
        self.num_actions = arguments.integer("n", n, least=1, most=MOST_ARRIVALS) + 1
        self.target = jnp.asarray(arguments.positive("V", V), dtype=float)
        self.rows = self.budget = None
        if data is not None:
            refuse_both({"bids": bids})
            self._draw_from(as_rows(data, "adw"), arguments.positive("budgets", budgets))
        elif budgets != 1.0:
            raise ValueError("`budgets` is for `data`: without data every budget is 1.")
        elif isinstance(bids, list | tuple):
            if len(bids) != n:
                raise ValueError(f"`bids` must be one distribution or a list of `n` = {n} of them, got {len(bids)}.")
            self.bid_distributions = tuple(as_distribution(f"bids[{i}]", one) for i, one in enumerate(bids))
        else:
            self.bid_distributions = as_distribution("bids", bids)
        self._refuse_an_infeasible_target()

    def _draw_from(self, rows: TrainingRows, budget: float) -> None:
        """Take bids from rows; bids, budgets and target get one unit, which fewer advertisers have too."""
        num_advertisers, num_columns = self.num_actions - 1, len(rows.units)
        if num_advertisers > num_columns:
            raise ValueError(f"`n` must be at most {num_columns}, the number of bid columns, got {num_advertisers}.")
        unit = unit_for(max(budget, *rows.largest()))
        self.rows = rows.in_units([unit] * num_columns, num_advertisers)
        self.bid_distributions = tuple(map(Empirical, np.asarray(self.rows.table).T))
        self.budget = jnp.asarray(budget / unit, dtype=float)
        self.target = self.target / unit

    @property
    def bid_unit(self) -> float:
        """What a bid of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[0]

    @property
    def full_budget(self) -> float:
        """What every advertiser has at first."""
        return 1.0 if self.budget is None else float(self.budget)

    def distributions(self) -> tuple[Distribution, ...]:
        """The bids of each advertiser."""
        one = self.bid_distributions
        return (one,) * (self.num_actions - 1) if isinstance(one, Distribution) else one

    def _refuse_an_infeasible_target(self) -> None:
        budget, unit = self.full_budget, self.bid_unit
        dearest = min(budget, max(one.support()[1] for one in self.distributions()))
        most = min((self.num_actions - 1) * budget, self.horizon * dearest)
        if float(self.target) > most:
            raise ValueError(
                f"`V` = {float(self.target) * unit:g} can never be reached: {self.num_actions - 1} budgets of "
                f"{budget * unit:g} and {self.horizon} bids of at most {dearest * unit:g} give at most {most * unit:g}."
            )

    def draw(self, key: Key) -> ADWInstance:
        if self.rows is not None:
            return ADWInstance(self.rows.draw(key, self.horizon))
        uniforms = jax.random.uniform(key, (self.horizon, self.num_actions - 1), self.target.dtype)
        if isinstance(self.bid_distributions, Distribution):
            return ADWInstance(self.bid_distributions.quantile(uniforms))
        columns = [one.quantile(uniforms[:, i]) for i, one in enumerate(self.bid_distributions)]
        return ADWInstance(jnp.stack(columns, axis=1))

    def init(self, instance: ADWInstance) -> ADWState:
        dtype = instance.bids.dtype
        budgets = jnp.ones(self.num_actions - 1, dtype)
        if self.budget is not None:
            budgets = budgets * self.budget
        return ADWState(jnp.zeros((), jnp.int32), budgets, jnp.zeros((), dtype))

    def observe(self, instance: ADWInstance, state: ADWState) -> Observation:
        fraction = (state.position + 1).astype(state.revenue.dtype) / self.horizon
        ends = fraction[None], (state.revenue / self.target)[None]
        return jnp.concatenate([ends[0], instance.bids[state.position], state.budgets, ends[1]])

    def variables(self, observation: Observation) -> Variables:
        num_advertisers = self.num_actions - 1
        # Nobody is a virtual advertiser that bids 0 and has no budget.
        bids = jnp.pad(observation[1 : 1 + num_advertisers], (1, 0))
        budgets = jnp.pad(observation[1 + num_advertisers : -1], (1, 0))
        return jnp.stack(
            [jnp.full_like(bids, observation[0]), bids, budgets, jnp.full_like(bids, observation[-1])], axis=1
        )

    def step(self, instance: ADWInstance, state: ADWState, action: Action) -> tuple[ADWState, Reward, Flag]:
        is_winner = jnp.arange(self.num_actions - 1, dtype=action.dtype) == action - 1
        paid = jnp.where(
            is_winner & (state.budgets >= instance.bids[state.position]), instance.bids[state.position], 0.0
        )
        revenue = state.revenue + jnp.sum(paid)
        reached = revenue >= self.target
        goes_on = ~reached & (state.position + 1 < self.horizon)
        reward = reached.astype(revenue.dtype)
        return ADWState(state.position + 1, state.budgets - paid, revenue), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        num_advertisers = self.num_actions - 1
        highs = [distribution.support()[1] for distribution in self.distributions()]
        highs = highs if self.rows is None else self.rows.highest
        return [0.0] * (2 * num_advertisers + 2), [1.0, *highs, *[self.full_budget] * num_advertisers, 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 4
