"""The best an online player can do in the knapsack problem, between two bounds: dynamic programming on a grid.

With h items to come, free budget b and value w still needed, the chance of success W_h(b, w) rises with b, falls with
w, and is the mean over the next item (s, v) of max(W_(h-1)(b, w), W_(h-1)(b - s, w - v)), the second only if s <= b; it
is 1 as soon as w <= 0. One recursion rounds in the player's favour and ends above, one against him and ends below.
`docs/optima.md` says why the bounds hold.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup.exact.finite import require_double_precision
from rampup.exact.grids import FUZZ, OnBounds, OnlyRowsError, TooLargeError, below, bend, common_unit, exact_unit
from rampup.problems.distributions import Distribution
from rampup.problems.okd import OKD
from rampup.types import LogProbs, Observation, Real

Worth = Float[Array, "budget need"]
"""W on the grid: rows are free budgets 0, 1, 2.. widths, columns are needs."""


class Axis(NamedTuple):
    """One axis of the grid, and the chance that an item moves us by so many widths along it."""

    width: float
    num_points: int
    """Grid points, the first at zero."""
    probs: np.ndarray
    """Entry j: an item in the cell from j to j + 1 widths; or, after rounding, of j widths exactly."""


class Grid(NamedTuple):
    """How the problem was cut into cells, for one of the two bounds."""

    budget: Axis
    need: Axis
    is_smooth: bool
    """Whether items are uniform inside each cell, so that W can be interpolated; else items are rounded."""
    start: tuple[float, float]
    """Where the game begins, in widths."""

    @property
    def work(self) -> float:
        """Elementary operations of one step."""
        moves = np.count_nonzero(self.budget.probs) * np.count_nonzero(self.need.probs)
        return float(moves) * self.budget.num_points * self.need.num_points


class GridPolicy(eqx.Module):
    """Accept an item that fits and after which the table promises no less than before.

    It succeeds with a chance of `lower` at least, and no online player with one above `upper`.
    """

    lower: Float[Array, ""]
    upper: Float[Array, ""]
    table: Float[Array, "left budget need"]
    """W by the number of items still to come."""
    widths: Float[Array, "2"]
    limits: Float[Array, "2"]
    """Budget and target."""
    is_smooth: bool = eqx.field(static=True)

    def __call__(self, observation: Observation) -> LogProbs:
        fraction, size, value, used, collected = observation
        horizon = len(self.table)
        left = horizon - jnp.round(fraction * horizon).astype(int)
        budget, need = self.limits[0] * (1 - used), self.limits[1] * (1 - collected)
        stay, go = (self._worth(left, budget - take * size, need - take * value) for take in (0.0, 1.0))
        # The slack only decides ties of rounding; an item that does not fit is refused by the problem itself.
        accepts = (size <= budget + 1e-9) & (go >= stay)
        return jnp.where(jnp.stack([~accepts, accepts]), 0.0, -jnp.inf)

    def _worth(self, left: Array, budget: Real, need: Real) -> Real:
        row, column = budget / self.widths[0], need / self.widths[1]
        if self.is_smooth:
            inside = _interpolated(self.table, left, row, column)
        else:
            nearest = jnp.floor(row + FUZZ).astype(int), jnp.ceil(column - FUZZ).astype(int)
            last = jnp.asarray(self.table.shape[1:]) - 1
            inside = self.table[left, *jnp.clip(jnp.stack(nearest), 0, last)]
        return jnp.where(column <= FUZZ, 1.0, inside.astype(float))


# Above this many operations (about a minute on two cores) a grid is not tried.
_MOST_WORK = 5e10
# 100 steps of 300 x 750 points in single precision are 90 MB.
_MOST_TABLE_ENTRIES = 2.5e8
# Cells along the largest item, coarse to fine. The need is cut finer than the budget: the mean over sizes is taken
# exactly, that over values is not.
_FINENESS = ((5, 10), (10, 20), (24, 36), (30, 50), (40, 60), (60, 80), (100, 100), (200, 200), (400, 400))


def optimum(problem: OKD, *, tolerance: float = 0.005, on_bounds: OnBounds | None = None) -> GridPolicy:
    """Bound the optimal online value on finer and finer grids, until the bounds meet within `tolerance`.

    Returns the policy of the best lower bound; it carries both bounds.
    """
    require_double_precision()
    if problem.rows is not None:
        raise OnlyRowsError("the knapsack")
    best = None
    for favourable, unfavourable in _grids(problem):
        upper, _ = _solve(favourable, problem.horizon, is_favourable=True)
        lower, table = _solve(unfavourable, problem.horizon, is_favourable=False)
        widths = jnp.asarray([unfavourable.budget.width, unfavourable.need.width])
        limits = jnp.stack([problem.budget, problem.target])
        found = GridPolicy(jnp.asarray(lower), jnp.asarray(upper), table, widths, limits, unfavourable.is_smooth)
        best = found if best is None else _tightest(best, found)
        if on_bounds is not None:
            on_bounds(float(best.lower), float(best.upper))
        if best.upper - best.lower <= tolerance:
            break
    if best is None:
        raise TooLargeError(
            f"the knapsack with n = {problem.horizon} is too large for dynamic programming: take smaller `n`, `B`, `V`."
        )
    return best


def _tightest(one: GridPolicy, other: GridPolicy) -> GridPolicy:
    """The better policy with the best of both bounds; where items are rounded a finer grid need not be better."""
    better = one if one.lower > other.lower else other
    return eqx.tree_at(lambda policy: policy.upper, better, jnp.minimum(one.upper, other.upper))


def _grids(problem: OKD) -> Iterator[tuple[Grid, Grid]]:
    """Pairs of grids, favourable and not, each finer than the last, as long as they are worth their work."""
    last = None
    for size_cells, value_cells in _FINENESS:
        axes = _Cut(problem.size_distribution, size_cells), _Cut(problem.value_distribution, value_cells)
        widths = tuple(cut.width for cut in axes)
        if widths == last:
            continue
        last = widths
        pair = _grid(problem, *axes, is_favourable=True), _grid(problem, *axes, is_favourable=False)
        entries = problem.horizon * pair[1].budget.num_points * pair[1].need.num_points
        if max(one.work for one in pair) * problem.horizon > _MOST_WORK or entries > _MOST_TABLE_ENTRIES:
            return
        yield pair
        if all(cut.is_exact for cut in axes):
            return


class _Cut:
    """The width of the cells for one distribution.

    Piecewise uniform distributions get cells that begin and end where their pieces do. Numbers that all are multiples
    of something get that as their width: rounding then changes nothing. Anything else is rounded.
    """

    def __init__(self, distribution: Distribution, cells: int):
        self.distribution = distribution
        self.largest = distribution.support()[1]
        self.is_smooth = self.is_exact = False
        edges = distribution.breakpoints()
        if edges is not None and (unit := common_unit(edges, self.largest)):
            self.is_smooth = True
            self.width = unit / max(1, round(cells * unit / self.largest))
            return
        unit = exact_unit(distribution)
        self.is_exact = unit is not None
        self.width = unit or (self.largest or 1.0) / cells


def _grid(problem: OKD, sizes: _Cut, values: _Cut, *, is_favourable: bool) -> Grid:
    is_smooth = sizes.is_smooth and values.is_smooth
    # What can never be used up need not be on the grid.
    budget = min(float(problem.budget), problem.horizon * sizes.largest)
    start = budget / sizes.width, float(problem.target) / values.width
    if not is_smooth:
        # Where all sizes are multiples of the width, so is all that can be used; and values likewise.
        budget_end = _up if is_favourable and not sizes.is_exact else _down
        need_end = _down if is_favourable and not values.is_exact else _up
        start = budget_end(start[0]), need_end(start[1])
    # Four points at least: how W bends is read off them.
    counts = tuple(max(3, math.ceil(at - FUZZ)) + 1 for at in start)
    size_probs = _cell_probs(sizes, is_smooth, rounds_up=not is_favourable)
    value_probs = _cell_probs(values, is_smooth, rounds_up=is_favourable)
    return Grid(Axis(sizes.width, counts[0], size_probs), Axis(values.width, counts[1], value_probs), is_smooth, start)


def _up(number: float) -> int:
    return math.ceil(number - FUZZ)


def _down(number: float) -> int:
    return math.floor(number + FUZZ)


def _cell_probs(cut: _Cut, is_smooth: bool, *, rounds_up: bool) -> np.ndarray:
    """The chance of each cell; or, where items are rounded, of each number of widths."""
    count = _up(cut.largest / cut.width)
    if is_smooth:
        edges = np.arange(count + 1) * cut.width
        return np.diff(below(cut.distribution, edges))
    shift = FUZZ - 1 if rounds_up else -FUZZ
    edges = (np.arange(count + 2) + shift) * cut.width
    return np.diff(below(cut.distribution, edges))


def _solve(grid: Grid, horizon: int, *, is_favourable: bool) -> tuple[float, Any]:
    """The bound at the start, and the table of the unfavourable recursion (nothing for the other)."""
    shape = grid.budget.num_points, grid.need.num_points
    probs = jnp.asarray(grid.budget.probs), jnp.asarray(grid.need.probs)
    if grid.is_smooth:
        worth, table = _smooth_recursion(shape, *probs, horizon, is_favourable)
        is_on_grid = all(abs(at - round(at)) <= FUZZ for at in grid.start)
        ends = worth if is_on_grid else _lifted(worth, is_favourable)
        bound = _interpolated(ends[None], jnp.asarray(0), *map(jnp.asarray, grid.start))
    else:
        moves = [np.flatnonzero(axis.probs) for axis in (grid.budget, grid.need)]
        worth, table = _rounded_recursion(shape, *(jnp.asarray(one) for one in moves), *probs, horizon, is_favourable)
        bound = worth[int(grid.start[0]), int(grid.start[1])]
    return float(jnp.clip(bound, 0.0, 1.0)), table


def _interpolated(table: Float[Array, "left budget need"], left_items: Array, row: Real, column: Real) -> Real:
    """W between grid points, linear in each direction."""
    _, rows, columns = table.shape
    top = jnp.clip(jnp.floor(row + FUZZ).astype(int), 0, rows - 2)
    left = jnp.clip(jnp.floor(column + FUZZ).astype(int), 0, columns - 2)
    down, right = (jnp.clip(at - low.astype(float), 0.0, 1.0) for at, low in ((row, top), (column, left)))
    corners = jax.lax.dynamic_slice(table, (left_items, top, left), (1, 2, 2))[0].astype(float)
    return jnp.stack([1 - down, down]) @ corners @ jnp.stack([1 - right, right])


@partial(jax.jit, static_argnums=(0, 3, 4))
def _smooth_recursion(shape, size_probs, value_probs, horizon: int, is_favourable: bool):
    def back(worth, _):
        kept = None if is_favourable else worth.astype(jnp.float32)
        return _one_item_earlier(worth, size_probs, value_probs, is_favourable), kept

    return jax.lax.scan(back, jnp.zeros(shape), None, length=horizon)


def _lifted(worth: Worth, is_favourable: bool) -> Worth:
    """W at grid points moved so far that linear interpolation errs to one side only; still rising with the budget."""
    sign = 1.0 if is_favourable else -1.0
    moved = worth + sign * (bend(worth, 0, sign) + bend(worth, 1, sign))
    return jax.lax.cummax(moved, axis=0) if is_favourable else jax.lax.cummin(moved, axis=0, reverse=True)


# A slope that keeps W strictly rising in the budget, so that its inverse exists where W is flat.
_SLOPE = 1e-10


def _if(condition: Array, number: Array) -> Array:
    return jnp.where(condition, number, 0.0)


def _one_item_earlier(worth: Worth, size_probs: Array, value_probs: Array, is_favourable: bool) -> Worth:
    """W with one more item to come, from W after it; column 0 is a need just above zero.

    Sizes and values are uniform inside their cells. Along the size the landing value is linear from end to end, and the
    mean of max(stay, landing) is taken exactly; along the value the mean of the maximum is at most that over the two
    ends, and at least the maximum at the middle (Jensen).
    """
    rows, columns = worth.shape
    row, column = jnp.arange(rows), jnp.arange(columns)
    num_sizes, num_values = len(size_probs), len(value_probs)
    landing = _lifted(worth, is_favourable)
    if is_favourable:
        ends = jnp.pad(value_probs, (0, 1)), jnp.pad(value_probs, (1, 0))
        weights = [(_if(k + 1 <= column, ends[0][k]) + _if(k <= column, ends[1][k])) / 2 for k in range(num_values + 1)]
    else:
        landing = (landing + jnp.pad(landing, ((0, 0), (1, 0)), mode="edge")[:, :-1]) / 2
        weights = [_if(k + 1 <= column, value_probs[k]) for k in range(num_values)]
    landing = landing + _SLOPE * (row if is_favourable else row - rows).astype(float)[:, None]
    per_rise = 0.5 / jnp.diff(landing, axis=0, prepend=landing[:1] - _SLOPE)
    padding = ((num_sizes + 1, 0), (len(weights), 0))
    landing, per_rise = jnp.pad(landing, padding), jnp.pad(per_rise, padding)
    # A value of at least the need ends the game.
    wins = jnp.sum(_if(jnp.arange(num_values)[None, :] >= column[:, None], value_probs[None, :]), axis=1)

    def add_size(j, total):
        top, bottom, rise = (
            jax.lax.dynamic_slice(array, (num_sizes + 1 - shift, 0), (rows, columns + len(weights)))
            for array, shift in ((landing, j), (landing, j + 1), (per_rise, j))
        )
        gain = wins[None, :] * (1 - worth)
        for k, weight in enumerate(weights):
            at = slice(len(weights) - k, len(weights) - k + columns)
            # The mean of max(0, x) for x uniform between two numbers is half the difference of their squared
            # positive parts, over their distance.
            high, low = jnp.maximum(top[:, at] - worth, 0.0), jnp.maximum(bottom[:, at] - worth, 0.0)
            gain = gain + weight[None, :] * ((high - low) * (high + low) * rise[:, at])
        return total + _if(j + 1 <= row, size_probs[j])[:, None] * gain

    return jnp.minimum(jax.lax.fori_loop(0, num_sizes, add_size, worth), 1.0)


@partial(jax.jit, static_argnums=(0, 5, 6))
def _rounded_recursion(shape, size_moves, value_moves, size_probs, value_probs, horizon: int, is_favourable: bool):
    """The same for items that are whole numbers of widths; column 0 is a need of zero, which is success."""
    row = jnp.arange(shape[0])[:, None]
    margin = len(size_probs), len(value_probs)
    done = jnp.zeros(shape).at[:, 0].set(1.0)

    def back(worth, _):
        padded = jnp.pad(worth, ((margin[0], 0), (0, 0)))
        padded = jnp.pad(padded, ((0, 0), (margin[1], 0)), constant_values=1.0)

        def add_move(index, total):
            j, k = size_moves[index // len(value_moves)], value_moves[index % len(value_moves)]
            landing = jax.lax.dynamic_slice(padded, (margin[0] - j, margin[1] - k), shape)
            gain = jnp.where(row >= j, jnp.maximum(landing - worth, 0.0), 0.0)
            return total + size_probs[j] * value_probs[k] * gain

        earlier = jax.lax.fori_loop(0, len(size_moves) * len(value_moves), add_move, worth)
        return earlier, None if is_favourable else worth.astype(jnp.float32)

    return jax.lax.scan(back, done, None, length=horizon)
