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


Bids = Distribution | tuple[Distribution, ...]
"""Of all advertisers, or of each."""


def as_bids(bids: Any, n: int) -> Bids:
    """Turn one distribution, or a list of them, into the bids of n advertisers."""
    if not isinstance(bids, list | tuple):
        return as_distribution("bids", bids)
    if len(bids) != n:
        raise ValueError(f"`bids` must be one distribution or a list of `n` = {n} of them, got {len(bids)}.")
    return tuple(as_distribution(f"bids[{i}]", one) for i, one in enumerate(bids))


def as_budgets(budgets: Any, n: int) -> Float[Array, " advertiser"] | None:
    """Turn one number, or a list of them, into the budgets of n advertisers; nothing where all are 1."""
    if not isinstance(budgets, list | tuple | np.ndarray):
        budget = arguments.positive("budgets", budgets)
        return None if budget == 1 else jnp.full(n, budget, dtype=float)
    if len(budgets) != n:
        raise ValueError(f"`budgets` must be one number or a list of `n` = {n} of them, got {len(budgets)}.")
    each = [arguments.positive(f"budgets[{i}]", one) for i, one in enumerate(budgets)]
    return None if all(one == 1 for one in each) else jnp.asarray(each, dtype=float)


def one_each(bids: Bids, num_advertisers: int) -> tuple[Distribution, ...]:
    """The distribution of each advertiser's bids."""
    return (bids,) * num_advertisers if isinstance(bids, Distribution) else bids


def bids_at(bids: Bids, uniforms: Float[Array, "slot advertiser"]) -> Float[Array, "slot advertiser"]:
    """The bids that uniform numbers stand for."""
    if isinstance(bids, Distribution):
        return bids.quantile(uniforms)
    return jnp.stack([one.quantile(uniforms[:, i]) for i, one in enumerate(bids)], axis=1)


def dearest_and_most(bids: tuple[Distribution, ...], budgets: np.ndarray, num_slots: int) -> tuple[float, float]:
    """The highest bid that anybody can pay, and the most that all slots can bring."""
    dearest = max(min(budget, one.support()[1]) for one, budget in zip(bids, budgets.tolist(), strict=True))
    return dearest, min(float(budgets.sum()), num_slots * dearest)


Auction = tuple[Bids, Float[Array, " advertiser"] | None, TrainingRows | None]


def as_auction(bids: Any, budgets: Any, data: Any, n: int, num_slots: int) -> Auction:
    """Where bids come from, and the budgets; from rows of data both in one unit, which fewer advertisers have too."""
    other_budgets = as_budgets(budgets, n)
    if data is None:
        return as_bids(bids, n), other_budgets, None
    refuse_both({"bids": bids})
    rows = as_rows(data, "adw")
    rows.refuse_more_than("m", num_slots)
    if n > len(rows.units):
        raise ValueError(f"`n` must be at most {len(rows.units)}, the number of bid columns, got {n}.")
    full = np.ones(n) if other_budgets is None else np.asarray(other_budgets)
    unit = unit_for(max(*full, *rows.largest()))
    rows = rows.in_units([unit] * len(rows.units), n)
    return tuple(map(Empirical, np.asarray(rows.table).T)), jnp.asarray(full / unit), rows


def draw_bids(problem: Any, key: Key) -> ADWInstance:
    """Draw the bids of an auction of either form."""
    if problem.rows is not None:
        return ADWInstance(problem.rows.draw(key, problem.horizon))
    # In the precision that the distributions' own numbers have.
    dtype = jax.tree.leaves(problem.bid_distributions)[0].dtype
    uniforms = jax.random.uniform(key, (problem.horizon, problem.num_actions - 1), dtype)
    return ADWInstance(bids_at(problem.bid_distributions, uniforms))


def highest_bids(problem: Any) -> list[float]:
    """The highest bid of each advertiser that can be seen."""
    if problem.rows is not None:
        return list(problem.rows.highest)
    return [one.support()[1] for one in problem.distributions()]


class ADW(Problem):
    """n advertisers, m slots, target V; action 0 gives the slot to nobody; the paper's section C.3 has budgets of 1."""

    shared_variables = (0, 3)
    size_parameters = ("n", "m", "V")
    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    target: Float[Array, ""]
    bid_distributions: Distribution | tuple[Distribution, ...]
    """Where there are rows, those of each advertiser apart; only the rows say how bids go together."""
    rows: TrainingRows | None
    other_budgets: Float[Array, " advertiser"] | None
    """What the advertisers begin with; nothing where it is 1 for all, as in the paper."""

    def __init__(
        self,
        n: int,
        m: int,
        V: float,  # noqa: N803 (the paper's letters)
        bids: Any = "uniform",
        budgets: Any = 1.0,
        data: Any = None,
    ):
        self.horizon = arguments.integer("m", m, least=1, most=MOST_ARRIVALS)
        self.num_actions = arguments.integer("n", n, least=1, most=MOST_ARRIVALS) + 1
        self.target = jnp.asarray(arguments.positive("V", V), dtype=float)
        self.bid_distributions, self.other_budgets, self.rows = as_auction(bids, budgets, data, n, self.horizon)
        self.target = self.target / self.bid_unit
        self._refuse_an_infeasible_target()

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

    def _refuse_an_infeasible_target(self) -> None:
        unit = self.bid_unit
        dearest, most = dearest_and_most(self.distributions(), self.budgets(), self.horizon)
        if float(self.target) > most:
            total = self.budgets().sum() * unit
            budgets = "budgets of 1" if self.other_budgets is None else f"budgets of {total:g} in all"
            raise ValueError(
                f"`V` = {float(self.target) * unit:g} can never be reached: {self.num_actions - 1} {budgets} and "
                f"{self.horizon} bids of at most {dearest * unit:g} give at most {most * unit:g}."
            )

    def draw(self, key: Key) -> ADWInstance:
        return draw_bids(self, key)

    def init(self, instance: ADWInstance) -> ADWState:
        dtype = instance.bids.dtype
        budgets = jnp.ones(self.num_actions - 1, dtype) if self.other_budgets is None else self.other_budgets
        return ADWState(jnp.zeros((), jnp.int32), budgets.astype(dtype), jnp.zeros((), dtype))

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
        return [0.0] * (2 * num_advertisers + 2), [1.0, *highest_bids(self), *self.budgets().tolist(), 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 4
