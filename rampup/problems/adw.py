"""ADW, AdWords in its decision form: give each slot to an advertiser with budget left until the revenue reaches V."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup import arguments
from rampup.problems.auction import ADWInstance, Auction
from rampup.types import Action, Flag, Observation, Reward, Variables


class ADWState(NamedTuple):
    """The position of the present slot, what is left of each budget, and the revenue so far."""

    position: Int[Array, ""]
    budgets: Float[Array, " advertiser"]
    revenue: Float[Array, ""]


class ADW(Auction):
    """n advertisers, m slots, target V; action 0 gives the slot to nobody; the paper's section C.3 has budgets of 1."""

    shared_variables = (0, 3)
    size_parameters = ("n", "m", "V")
    target: Float[Array, ""]

    def __init__(
        self,
        n: int,
        m: int,
        V: float,  # noqa: N803 (the paper's letters)
        bids: Any = "uniform",
        budgets: Any = 1.0,
        data: Any = None,
    ):
        super().__init__(n, m, bids, budgets, data)
        self.target = jnp.asarray(arguments.positive("V", V), dtype=float) / self.bid_unit
        if float(self.target) > self.most():
            unit = self.bid_unit
            total = self.budgets().sum() * unit
            said = "budgets of 1" if self.other_budgets is None else f"budgets of {total:g} in all"
            raise ValueError(
                f"`V` = {float(self.target) * unit:g} can never be reached: {self.num_actions - 1} {said} and "
                f"{self.horizon} bids of at most {self.dearest() * unit:g} give at most {self.most() * unit:g}."
            )

    def init(self, instance: ADWInstance) -> ADWState:
        dtype = instance.bids.dtype
        return ADWState(jnp.zeros((), jnp.int32), self.full_budgets(dtype), jnp.zeros((), dtype))

    def observe(self, instance: ADWInstance, state: ADWState) -> Observation:
        fraction = (state.position + 1).astype(state.revenue.dtype) / self.horizon
        ends = fraction[None], (state.revenue / self.target)[None]
        return jnp.concatenate([ends[0], instance.bids[state.position], state.budgets, ends[1]])

    def variables(self, observation: Observation) -> Variables:
        num_advertisers = self.num_actions - 1
        # Nobody bids 0 and has no budget.
        bids = jnp.pad(observation[1 : 1 + num_advertisers], (1, 0))
        budgets = jnp.pad(observation[1 + num_advertisers : -1], (1, 0))
        return jnp.stack(
            [jnp.full_like(bids, observation[0]), bids, budgets, jnp.full_like(bids, observation[-1])], axis=1
        )

    def step(self, instance: ADWInstance, state: ADWState, action: Action) -> tuple[ADWState, Reward, Flag]:
        paid = self.paid(instance.bids[state.position], state.budgets, action)
        revenue = state.revenue + jnp.sum(paid)
        reached = revenue >= self.target
        goes_on = ~reached & (state.position + 1 < self.horizon)
        reward = reached.astype(revenue.dtype)
        return ADWState(state.position + 1, state.budgets - paid, revenue), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * (2 * self.num_actions), [1.0, *self.highest_bids(), *self.budgets().tolist(), 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 4
