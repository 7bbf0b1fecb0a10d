"""ADW in value form: give each slot to an advertiser with budget left, for as much revenue as can be had."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup.problems.auction import ADWInstance, Auction
from rampup.types import Action, Flag, Observation, Reward, Variables


class ADWValueState(NamedTuple):
    """The position of the present slot, and what is left of each budget."""

    position: Int[Array, ""]
    budgets: Float[Array, " advertiser"]


class ADWValue(Auction):
    """n advertisers, m slots; a slot pays its bid as a part of the most there can be; action 0 gives it to nobody."""

    shared_variables = (0,)
    size_parameters = ("n", "m")
    usual_learning_rate = 1.0
    scale: Float[Array, ""]
    """The sum of the budgets, or of the highest bids if that is less: rewards are parts of it."""

    def __init__(self, n: int, m: int, bids: Any = "uniform", budgets: Any = 1.0, data: Any = None):
        super().__init__(n, m, bids, budgets, data)
        if self.most() == 0:
            raise ValueError(f"`bids` must not all be 0, got {bids!r:.80}.")
        self.scale = jnp.asarray(self.most(), dtype=float)

    def init(self, instance: ADWInstance) -> ADWValueState:
        return ADWValueState(jnp.zeros((), jnp.int32), self.full_budgets(instance.bids.dtype))

    def observe(self, instance: ADWInstance, state: ADWValueState) -> Observation:
        fraction = (state.position + 1).astype(state.budgets.dtype) / self.horizon
        return jnp.concatenate([fraction[None], instance.bids[state.position], state.budgets])

    def variables(self, observation: Observation) -> Variables:
        num_advertisers = self.num_actions - 1
        # Nobody bids 0 and has no budget.
        bids = jnp.pad(observation[1 : 1 + num_advertisers], (1, 0))
        budgets = jnp.pad(observation[1 + num_advertisers :], (1, 0))
        return jnp.stack([jnp.full_like(bids, observation[0]), bids, budgets], axis=1)

    def step(self, instance: ADWInstance, state: ADWValueState, action: Action) -> tuple[ADWValueState, Reward, Flag]:
        paid = self.paid(instance.bids[state.position], state.budgets, action)
        goes_on = state.position + 1 < self.horizon
        return ADWValueState(state.position + 1, state.budgets - paid), jnp.sum(paid) / self.scale, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * (2 * self.num_actions - 1), [1.0, *self.highest_bids(), *self.budgets().tolist()]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 3
