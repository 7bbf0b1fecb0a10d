"""What both forms of AdWords share: advertisers with budgets, and slots for which they bid."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup import arguments
from rampup.problems.base import MOST_ARRIVALS, Problem
from rampup.problems.distributions import Distribution, Empirical, as_distribution
from rampup.problems.rows import TrainingRows, as_rows, refuse_both, unit_for
from rampup.types import Action, Key

Bids = Distribution | tuple[Distribution, ...]
"""Of all advertisers, or of each."""


class ADWInstance(NamedTuple):
    """What every advertiser bids for every slot."""

    bids: Float[Array, "slot advertiser"]


class Auction(Problem):
    """n advertisers, m slots; action 0 gives a slot to nobody, who is a virtual advertiser."""

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    bid_distributions: Bids
    """Where there are rows, those of each advertiser apart; only the rows say how bids go together."""
    rows: TrainingRows | None
    other_budgets: Float[Array, " advertiser"] | None
    """What the advertisers begin with; nothing where it is 1 for all, as in the paper."""

    def __init__(self, n: int, m: int, bids: Any, budgets: Any, data: Any):
        self.horizon = arguments.integer("m", m, least=1, most=MOST_ARRIVALS)
        self.num_actions = arguments.integer("n", n, least=1, most=MOST_ARRIVALS) + 1
        other_budgets = _as_budgets(budgets, n)
        if data is None:
            self.bid_distributions, self.other_budgets, self.rows = _as_bids(bids, n), other_budgets, None
            return
        refuse_both({"bids": bids})
        rows = as_rows(data, "adw")
        rows.refuse_more_than("m", self.horizon)
        if n > len(rows.units):
            raise ValueError(f"`n` must be at most {len(rows.units)}, the number of bid columns, got {n}.")
        full = np.ones(n) if other_budgets is None else np.asarray(other_budgets)
        # Bids and budgets in one unit, which fewer advertisers have too.
        unit = unit_for(max(*full, *rows.largest()))
        self.rows = rows.in_units([unit] * len(rows.units), n)
        self.bid_distributions = tuple(map(Empirical, np.asarray(self.rows.table).T))
        self.other_budgets = jnp.asarray(full / unit)

    @property
    def bid_unit(self) -> float:
        """What a bid of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[0]

    def distributions(self) -> tuple[Distribution, ...]:
        """The bids of each advertiser."""
        bids = self.bid_distributions
        return (bids,) * (self.num_actions - 1) if isinstance(bids, Distribution) else bids

    def budgets(self) -> np.ndarray:
        """What each advertiser begins with."""
        return np.ones(self.num_actions - 1) if self.other_budgets is None else np.asarray(self.other_budgets, float)

    def full_budgets(self, dtype: Any) -> Float[Array, " advertiser"]:
        """The same in an episode."""
        if self.other_budgets is None:
            return jnp.ones(self.num_actions - 1, dtype)
        return self.other_budgets.astype(dtype)

    def dearest(self) -> float:
        """The highest bid that anybody can pay."""
        pairs = zip(self.distributions(), self.budgets().tolist(), strict=True)
        return max(min(budget, one.support()[1]) for one, budget in pairs)

    def most(self) -> float:
        """The most that all slots can bring."""
        return min(float(self.budgets().sum()), self.horizon * self.dearest())

    def highest_bids(self) -> list[float]:
        """The highest bid of each advertiser that can be seen."""
        if self.rows is not None:
            return list(self.rows.highest)
        return [one.support()[1] for one in self.distributions()]

    def draw(self, key: Key) -> ADWInstance:
        if self.rows is not None:
            return ADWInstance(self.rows.draw(key, self.horizon))
        bids = self.bid_distributions
        # In the precision that the distributions' own numbers have.
        dtype = jax.tree.leaves(bids)[0].dtype
        uniforms = jax.random.uniform(key, (self.horizon, self.num_actions - 1), dtype)
        if isinstance(bids, Distribution):
            return ADWInstance(bids.quantile(uniforms))
        return ADWInstance(jnp.stack([one.quantile(uniforms[:, i]) for i, one in enumerate(bids)], axis=1))

    def paid(
        self, bids: Float[Array, " advertiser"], budgets: Float[Array, " advertiser"], action: Action
    ) -> Float[Array, " advertiser"]:
        """What each advertiser pays for a slot: the winner its bid, if its budget suffices."""
        is_winner = jnp.arange(self.num_actions - 1, dtype=action.dtype) == action - 1
        return jnp.where(is_winner & (budgets >= bids), bids, 0.0)


def _as_bids(bids: Any, n: int) -> Bids:
    """Turn one distribution, or a list of them, into the bids of n advertisers."""
    if not isinstance(bids, list | tuple):
        return as_distribution("bids", bids)
    if len(bids) != n:
        raise ValueError(f"`bids` must be one distribution or a list of `n` = {n} of them, got {len(bids)}.")
    return tuple(as_distribution(f"bids[{i}]", one) for i, one in enumerate(bids))


def _as_budgets(budgets: Any, n: int) -> Float[Array, " advertiser"] | None:
    """Turn one number, or a list of them, into the budgets of n advertisers; nothing where all are 1."""
    if not isinstance(budgets, list | tuple | np.ndarray):
        budget = arguments.positive("budgets", budgets)
        return None if budget == 1 else jnp.full(n, budget, dtype=float)
    if len(budgets) != n:
        raise ValueError(f"`budgets` must be one number or a list of `n` = {n} of them, got {len(budgets)}.")
    each = [arguments.positive(f"budgets[{i}]", one) for i, one in enumerate(budgets)]
    return None if all(one == 1 for one in each) else jnp.asarray(each, dtype=float)
