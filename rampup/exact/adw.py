"""The best an online player can do in small AdWords problems: dynamic programming over what is left of the budgets.

The revenue is what was paid out of the budgets, so the budgets alone are the state: W_h(b) with h slots to come is the
mean over the next bids v of the maximum of W_(h-1)(b) and of W_(h-1)(b - v_i e_i) over the advertisers i who can pay.
Bids of different advertisers are independent, so the mean of that maximum follows from n distributions of one number
each. Bids that are multiples of a common unit make it exact; for piecewise uniform bids one recursion ends above and
one below (`docs/optima.md`).
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup.exact.finite import require_double_precision
from rampup.exact.grids import FUZZ, OnBounds, OnlyRowsError, TooLargeError, below, bend, common_unit, exact_unit
from rampup.problems.adw import ADW
from rampup.problems.distributions import Distribution
from rampup.types import Real


class ADWOptimum(NamedTuple):
    """The greatest success rate of any online player lies between `lower` and `upper`."""

    lower: float
    upper: float


class _Grid(NamedTuple):
    cells: int
    """Widths to 1."""
    budgets: tuple[int, ...]
    """By advertiser, in widths."""
    probs: np.ndarray
    """By advertiser: the chance of a bid in each cell; or, on a lattice, of so many widths exactly."""
    is_lattice: bool


# About half a minute on two cores.
_MOST_WORK = 1e9
# Enough lanes to be quick, few enough that what they sort stays in memory.
_LANES = 512


def optimum(problem: ADW, *, tolerance: float = 0.005, on_bounds: OnBounds | None = None) -> ADWOptimum:
    """Bound the optimal online value on finer and finer grids, until the bounds meet within `tolerance`."""
    require_double_precision()
    if problem.rows is not None:
        raise OnlyRowsError("AdWords")
    best = None
    for grid in _grids(problem):
        found = ADWOptimum(*(_solve(problem, grid, is_favourable=one) for one in (False, True)))
        best = found if best is None else ADWOptimum(max(best.lower, found.lower), min(best.upper, found.upper))
        if on_bounds is not None:
            on_bounds(*best)
        if best.upper - best.lower <= tolerance:
            break
    if best is None:
        raise TooLargeError(
            f"AdWords with n = {problem.num_actions - 1} advertisers, or with these bids, is too large for dynamic "
            "programming: the hindsight rate bounds the optimum instead."
        )
    return best


def _grids(problem: ADW) -> Iterator[_Grid]:
    distributions, budgets = problem.distributions(), problem.budgets().tolist()
    largest = max(1.0, *budgets)
    units = [exact_unit(each) for each in distributions]
    if all(units):
        # Budgets and bids must be multiples of one width.
        unit = common_unit([1.0, *budgets, *(unit for unit in units if unit)], largest)
        if unit is not None:
            cells = round(1 / unit)
            widths = _in_widths(budgets, cells)
            if _work(widths, problem.horizon) <= _MOST_WORK:
                probs = [_lattice_probs(each, cells, max(widths)) for each in distributions]
                yield _Grid(cells, widths, np.stack(probs), True)
        return
    edges = [each.breakpoints() for each in distributions]
    if any(each is None for each in edges):
        return
    unit = common_unit([1.0, *budgets, *(edge for each in edges for edge in each or ())], largest)
    if unit is None:
        return
    for fineness in (5, 10, 20, 30, 40, 60, 100, 200, 400):
        cells = round(1 / unit) * max(1, round(fineness * unit))
        widths = _in_widths(budgets, cells)
        if _work(widths, problem.horizon) > _MOST_WORK:
            return
        points = np.arange(max(widths) + 1) / cells
        yield _Grid(cells, widths, np.stack([np.diff(below(each, points)) for each in distributions]), False)


def _in_widths(budgets: list[float], cells: int) -> tuple[int, ...]:
    return tuple(round(budget * cells) for budget in budgets)


def _work(budgets: tuple[int, ...], horizon: int) -> float:
    """Numbers sorted in all: two per cell, advertiser, state and slot."""
    return math.prod(float(budget + 1) for budget in budgets) * 2 * max(budgets) * len(budgets) * horizon


def _lattice_probs(distribution: Distribution, cells: int, most: int) -> np.ndarray:
    """The chance of a bid of 0, 1, ..., `most` widths; larger bids can never be paid."""
    edges = (np.arange(most + 2) - FUZZ) / cells
    return np.diff(below(distribution, edges))


def _solve(problem: ADW, grid: _Grid, *, is_favourable: bool) -> float:
    # Off the grid, a target a little lower is in the player's favour; on a lattice of bids there is nothing between.
    target = float(problem.target) * grid.cells
    rounds_down = is_favourable and not grid.is_lattice
    rounded = math.floor(target + FUZZ) if rounds_down else math.ceil(target - FUZZ)
    shape = tuple(budget + 1 for budget in grid.budgets)
    worth = _recursion(
        shape, jnp.asarray(grid.probs), jnp.asarray(rounded), problem.horizon, grid.is_lattice, is_favourable
    )
    return float(worth[-1])


@partial(jax.jit, static_argnums=(0, 3, 4, 5))
def _recursion(
    shape: tuple[int, ...], probs: Array, target: Array, horizon: int, is_lattice: bool, is_favourable: bool
) -> Float[Array, " state"]:
    """W at every point of the grid of budgets, flattened; a revenue equal to the target counts as just short of it."""
    indices = jnp.stack(jnp.meshgrid(*map(jnp.arange, shape), indexing="ij"), axis=-1).reshape(-1, len(shape))
    strides = np.cumprod((1, *shape[:0:-1]))[::-1]
    # How many widths of revenue are missing.
    missing = target - jnp.sum(jnp.asarray(shape)[None, :] - 1 - indices, axis=1)

    def back(worth, _):
        ends = _landing(worth.reshape(shape), is_lattice, is_favourable)

        def of_state(given):
            index, position, gap = given
            lines = [
                ends[axis].ravel()[position - jnp.minimum(jnp.arange(probs.shape[1] + 1), index[axis]) * strides[axis]]
                for axis in range(len(shape))
            ]
            moves = _lattice_moves if is_lattice else _cell_moves
            values, chances, can_pay = moves(jnp.stack(lines), probs, index, gap, is_favourable)
            stay = worth[position]
            return _mean_of_maximum(jnp.where(can_pay, jnp.maximum(values, stay), stay), chances, stay)

        return jax.lax.map(of_state, (indices, jnp.arange(len(indices)), missing), batch_size=_LANES), None

    return jax.lax.scan(back, jnp.zeros(len(indices)), None, length=horizon)[0]


def _landing(worth: Array, is_lattice: bool, is_favourable: bool) -> list[Array]:
    """W to interpolate along each axis: moved so far that interpolation errs to one side."""
    if is_lattice:
        return [worth] * worth.ndim
    sign = 1.0 if is_favourable else -1.0
    return [worth + sign * bend(worth, axis, sign) for axis in range(worth.ndim)]


def _lattice_moves(lines: Array, probs: Array, index: Int[Array, " bidder"], gap: Array, is_favourable: bool):
    """What each bid leads to, its chance, and whether it can be paid."""
    bids = jnp.arange(probs.shape[1])[None, :]
    # Bids of nothing change nothing, even where nothing is missing: such a state is never entered.
    values = jnp.where((bids >= gap) & (bids > 0), 1.0, lines[:, :-1])
    return values, probs, bids <= index[:, None]


def _cell_moves(lines: Array, probs: Array, index: Int[Array, " bidder"], gap: Array, is_favourable: bool):
    """The same for bids uniform in cells: both ends in the player's favour, the middle against him (Jensen)."""
    cells = jnp.arange(probs.shape[1])[None, :]
    wins, can_pay = cells >= gap, cells + 1 <= index[:, None]
    near, far = jnp.where(wins, 1.0, lines[:, :-1]), jnp.where(wins, 1.0, lines[:, 1:])
    if not is_favourable:
        return (near + far) / 2, probs, can_pay
    twice = partial(jnp.concatenate, axis=1)
    return twice([near, far]), twice([probs / 2] * 2), twice([can_pay] * 2)


def _mean_of_maximum(values: Float[Array, "bidder bid"], chances: Float[Array, "bidder bid"], least: Real) -> Real:
    """The mean of the largest of independent numbers, one drawn by each bidder; what is left to 1 counts as `least`."""
    num_bidders, num_bids = values.shape
    order = jnp.argsort(values.ravel())
    sorted_values, owner = values.ravel()[order], order // num_bids
    missing = 1 - jnp.sum(chances, axis=1)
    is_owner = owner[:, None] == jnp.arange(num_bidders)[None, :]
    by_bidder = missing[None, :] + jnp.cumsum(jnp.where(is_owner, chances.ravel()[order][:, None], 0.0), axis=0)
    all_below = jnp.prod(by_bidder, axis=1)
    steps = jnp.diff(all_below, prepend=jnp.prod(missing)[None])
    return jnp.prod(missing) * least + jnp.sum(sorted_values * steps)
