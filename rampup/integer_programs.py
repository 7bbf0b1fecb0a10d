"""What can be had from a single instance, all arrivals known: knapsacks by dynamic program, allocations by HiGHS.

NumPy and SciPy only. HiGHS works outside Python's lock, so threads can solve many instances at once.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, milp

from rampup import arguments

# An online player adds in doubles and in order of arrival, where 0.1 + 0.2 is above 0.3 and 1 - 0.9 is below 0.1.
# Sums here are taken in another order, so a budget may be passed and a target missed by this part of it: far above
# the rounding of a million additions, and always in favour of who sees all, so that nobody online can do better.
SLACK = 1e-9
_LIMIT = 1 + SLACK

# HiGHS stops at an absolute gap of 1e-6; with the greatest weight scaled to this, the gap is within SLACK.
_GREATEST_WEIGHT = 1e3

# What SciPy calls a program that has no solution.
_INFEASIBLE = 2


def best_knapsack(sizes: Any, values: Any, budget: float) -> float:
    """The greatest total value of items whose total size is within the budget.

    Quick where sizes and values have little to do with each other; where one nearly follows from the other, hundreds
    of items can take more time and memory than there is.
    """
    return _greatest_value(_items(sizes, values, budget))


def best_allocation(bids: Any, budgets: Any) -> float:
    """The greatest revenue when each slot goes to one advertiser or to nobody, and nobody pays more than its budget.

    Args:
        bids: What is paid for a slot, whole or not at all; a row per slot and a column per advertiser.
        budgets: What each advertiser can pay in total.
    """
    pairs = _pairs(*_bids_and_budgets(bids, budgets))
    return _greatest_sum(_allocation(pairs), pairs.bids) if pairs.bids.size > 0 else 0.0


def knapsack_reaches(sizes: Any, values: Any, budget: float, target: float) -> bool:
    """Whether some items within the budget have at least the target's value together."""
    items = _items(sizes, values, budget)
    enough = _enough(target)
    if _greedy_value(items) >= enough:
        return True
    if _fractional_value(items) < enough:
        return False
    return _greatest_value(items, at_least=enough) >= enough


def allocation_reaches(bids: Any, budgets: Any, target: float) -> bool:
    """Whether some allocation earns at least the target."""
    bids, budgets = _bids_and_budgets(bids, budgets)
    pairs = _pairs(bids, budgets)
    enough = _enough(target)
    if _greedy_revenue(pairs) >= enough:
        return True
    payable = np.where(_is_payable(bids, budgets), bids, 0.0)
    if min(budgets.sum() * _LIMIT, payable.max(axis=1).sum()) < enough:
        return False
    return _reaches_one(_allocation(pairs), pairs.bids / target)


def _enough(target: float) -> float:
    target = arguments.real("target", target)
    return target - SLACK * abs(target)


def _not_negative(name: str, values: Any, *, ndim: int) -> np.ndarray:
    array = arguments.finite_array(name, values, ndim=ndim)
    if (array < 0).any():
        raise ValueError(f"`{name}` must not hold negative numbers, got {array.min()}.")
    return array


class _Items(NamedTuple):
    """The items that have a value and fit alone, the best value for its size first; a share is a part of the budget."""

    shares: np.ndarray
    values: np.ndarray


def _items(sizes: Any, values: Any, budget: float) -> _Items:
    sizes, values = _not_negative("sizes", sizes, ndim=1), _not_negative("values", values, ndim=1)
    arguments.shaped("values", values, sizes.shape)
    budget = arguments.at_least_zero("budget", budget)
    is_useful = (values > 0) & (sizes <= budget * _LIMIT)
    # Where the budget is 0, all that fits has size 0.
    shares, values = sizes[is_useful] / (budget if budget > 0 else 1.0), values[is_useful]
    # Logarithms: quotients of the smallest numbers overflow, and what has no size comes first.
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(shares) - np.log(values), kind="stable")
    return _Items(shares[order], values[order])


def _greedy_value(items: _Items) -> float:
    """What is collected by taking every item that still fits."""
    used = collected = 0.0
    for share, value in zip(items.shares.tolist(), items.values.tolist(), strict=True):
        if used + share <= _LIMIT:
            used, collected = used + share, collected + value
    return collected


def _fractional_value(items: _Items) -> float:
    """The greatest value when items can be cut: no whole items have more."""
    return float(np.interp(_LIMIT, *_running_totals(items)))


def _running_totals(items: _Items) -> tuple[np.ndarray, np.ndarray]:
    """Share and value of the first 0, 1, 2, ... items: between these points, what items that can be cut come to."""
    used, collected = (np.concatenate([[0.0], np.cumsum(part)]) for part in items)
    return used, collected


class _Bags(NamedTuple):
    """Ways to fill the bag, the emptiest first: what each uses of the budget, and the value inside."""

    used: np.ndarray
    collected: np.ndarray


def _greatest_value(items: _Items, *, at_least: float = 0.0) -> float:
    """The greatest value of whole items; or any smaller value, where nothing from `at_least` on can be had."""
    used_ends, collected_ends = _running_totals(items)
    bags, best = _Bags(np.zeros(1), np.zeros(1)), _greedy_value(items)
    for i, item in enumerate(zip(*items, strict=True), start=1):
        bags = _undominated(_with_and_without(bags, *item))
        best = max(best, float(bags.collected[-1]))
        # The items left are worth less for their size than those before, so cutting the last one gives the bound.
        rest = np.interp(used_ends[i] + _LIMIT - bags.used, used_ends, collected_ends) - collected_ends[i]
        is_open = (bags.collected + rest > best) & (bags.collected + rest >= at_least)
        bags = _Bags(*(part[is_open] for part in bags))
        if not is_open.any():
            break
    return best


def _with_and_without(bags: _Bags, share: float, value: float) -> _Bags:
    fits = bags.used + share <= _LIMIT
    added = bags.used[fits] + share, bags.collected[fits] + value
    return _Bags(*(np.concatenate(parts) for parts in zip(bags, added, strict=True)))


def _undominated(bags: _Bags) -> _Bags:
    """The bags that hold more value than every bag that uses no more of the budget."""
    order = np.lexsort((-bags.collected, bags.used))
    used, collected = bags.used[order], bags.collected[order]
    is_ahead = np.diff(np.maximum.accumulate(collected), prepend=-np.inf) > 0
    return _Bags(used[is_ahead], collected[is_ahead])


class _Pairs(NamedTuple):
    """The slots and advertisers that can be brought together, highest bid first; a share is a part of the budget."""

    slots: np.ndarray
    advertisers: np.ndarray
    bids: np.ndarray
    shares: np.ndarray


def _bids_and_budgets(bids: Any, budgets: Any) -> tuple[np.ndarray, np.ndarray]:
    bids, budgets = _not_negative("bids", bids, ndim=2), _not_negative("budgets", budgets, ndim=1)
    return bids, arguments.shaped("budgets", budgets, bids.shape[1:])


def _is_payable(bids: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    return (bids > 0) & (bids <= budgets * _LIMIT)


def _pairs(bids: np.ndarray, budgets: np.ndarray) -> _Pairs:
    slots, advertisers = np.nonzero(_is_payable(bids, budgets))
    order = np.argsort(-bids[slots, advertisers], kind="stable")
    slots, advertisers = slots[order], advertisers[order]
    bids = bids[slots, advertisers]
    return _Pairs(slots, advertisers, bids, bids / budgets[advertisers])


def _greedy_revenue(pairs: _Pairs) -> float:
    """What is earned by bringing together every pair whose slot is free and whose advertiser can still pay."""
    taken, used, earned = set(), {}, 0.0
    for slot, advertiser, bid, share in zip(*(part.tolist() for part in pairs), strict=True):
        total = used.get(advertiser, 0.0) + share
        if slot not in taken and total <= _LIMIT:
            taken.add(slot)
            used[advertiser] = total
            earned += bid
    return earned


class _Program(NamedTuple):
    """Sums of numbers that are not negative over yes-or-no choices; each row's sum must lie from its low to its high.

    Rows are scaled to bounds near 1, because SLACK and the tolerances of HiGHS are absolute.
    """

    rows: sparse.csr_array
    lows: np.ndarray
    highs: np.ndarray


def _packing(rows: sparse.csr_array) -> _Program:
    """The program in which no row's sum is above 1."""
    highs = np.ones(rows.indptr.size - 1)
    return _Program(rows, -np.inf * highs, highs)


def _with_row(program: _Program, row: np.ndarray, low: float, high: float) -> _Program:
    rows = sparse.csr_array(sparse.vstack([program.rows, sparse.csr_array(row[None, :])]))
    return _Program(rows, np.append(program.lows, low), np.append(program.highs, high))


def _allocation(pairs: _Pairs) -> _Program:
    """Each slot once and each budget kept; what this implies for whole bids makes the solver quick."""
    is_large, counts = _is_large(pairs.shares), _parts_of_count(pairs)
    by_slot = _sums_within(pairs.slots, np.ones_like(pairs.shares))
    by_advertiser = [_sums_within(pairs.advertisers, part) for part in (pairs.shares, counts, is_large.astype(float))]
    return _packing(sparse.csr_array(sparse.vstack([by_slot, *by_advertiser])))


def _sums_within(groups: np.ndarray, parts: np.ndarray) -> sparse.csr_array:
    """A row for each group, holding the parts of its members."""
    return sparse.csr_array((parts, (groups, np.arange(len(groups)))))


def _is_large(shares: np.ndarray) -> np.ndarray:
    """Whether two bids like this are more than an advertiser can pay."""
    return shares > _LIMIT / 2


def _parts_of_count(pairs: _Pairs) -> np.ndarray:
    parts = np.zeros_like(pairs.shares)
    for advertiser in np.unique(pairs.advertisers):
        is_own = pairs.advertisers == advertiser
        parts[is_own] = _parts_of_own_count(pairs.shares[is_own])
    return parts


def _parts_of_own_count(shares: np.ndarray) -> np.ndarray:
    """What each bid takes of the number of small bids an advertiser can pay: at most all of it, taken together.

    A small bid takes one, and a large one, which never meets another, as many as it leaves no room for. With bids of
    0.4 or above 0.6 and budget 1 this makes the relaxation nearly whole, where the sums of bids say almost nothing.
    """
    is_large = _is_large(shares)
    ends = np.cumsum(np.sort(shares[~is_large]))
    num_fitting = lambda room: np.searchsorted(ends, room, side="right")
    most = num_fitting(_LIMIT)
    return np.where(is_large, most - num_fitting(_LIMIT - shares), 1) / max(most, 1)


class _Solution(NamedTuple):
    """What HiGHS chooses, rounded to yes or no, and the weight it claims for it: no choice has more."""

    chosen: np.ndarray
    claim: float


def _solution(program: _Program, weights: np.ndarray, *, is_whole: bool = True) -> _Solution | None:
    """The choice of greatest weight by the tolerances of HiGHS; None where it finds none.

    It takes sums and choices for right that are off by up to 1e-6, so it misses nothing that is off by SLACK; what it
    lets in wrongly has to be cut off.

    Args:
        program: The rows to keep.
        weights: What each choice is worth.
        is_whole: False for the relaxation, in which choices can be cut.
    """
    # Without its presolve HiGHS is quicker here; also, where it looks at a solution twice, it prints a stray line.
    options = {"mip_rel_gap": 0.0, "presolve": False}
    answer = milp(-weights, integrality=int(is_whole), bounds=Bounds(0, 1), constraints=tuple(program), options=options)
    if answer.status == _INFEASIBLE:
        return None
    if not answer.success or answer.x is None:
        raise FloatingPointError(f"HiGHS gave up on {weights.size} choices: {answer.message}")
    return _Solution(answer.x > 0.5, -answer.fun)


def _broken(program: _Program, chosen: np.ndarray) -> np.ndarray:
    """The rows that a choice does not keep."""
    sums = program.rows @ chosen.astype(float)
    return np.flatnonzero((sums > program.highs + SLACK) | (sums < program.lows - SLACK))


def _kept_solution(program: _Program, weights: np.ndarray) -> tuple[_Program, _Solution | None]:
    """The choice of greatest weight that keeps all rows, None where no choice does; and the program with its cuts."""
    while (solution := _solution(program, weights)) is not None:
        broken = _broken(program, solution.chosen)
        if broken.size == 0:
            break
        program = _without(program, solution.chosen, broken[0])
    return program, solution


def _without(program: _Program, chosen: np.ndarray, broken: int) -> _Program:
    """The program without a choice that breaks a row, and without all that break it for the same reason.

    What is chosen too much stays too much with more chosen, and too little stays too little with less. Unlike a
    tighter bound, this says so in whole numbers and takes away no choice that is right.
    """
    row = program.rows[[broken], :].toarray()[0]
    if row[chosen].sum() < program.lows[broken]:
        return _with_another(program, chosen)
    together = chosen & (row > 0)
    return _with_row(program, together.astype(float), -np.inf, together.sum() - 1.0)


def _with_another(program: _Program, chosen: np.ndarray) -> _Program:
    """The program in which something is chosen that was not."""
    return _with_row(program, (~chosen).astype(float), 1.0, np.inf)


def _greatest_sum(program: _Program, values: np.ndarray) -> float:
    """The greatest sum of values, none of them 0, over the choices that keep all rows."""
    weights, best = _GREATEST_WEIGHT * values / values.max(), 0.0
    while True:
        program, solution = _kept_solution(program, weights)
        if solution is None:
            return best
        best = max(best, float(values[solution.chosen].sum()))
        # Where rounding took something from what is claimed, another choice may be better; but no part of this one.
        if solution.claim / _GREATEST_WEIGHT <= best / values.max() * _LIMIT:
            return best
        program = _with_another(program, solution.chosen)


def _reaches_one(program: _Program, values: np.ndarray) -> bool:
    """Whether the values sum up to 1 for some choice that keeps all rows."""
    program = _with_row(program, values, 1.0, np.inf)
    relaxed = _solution(program, values, is_whole=False)
    if relaxed is None:
        return False
    if _broken(program, relaxed.chosen).size == 0:
        return True
    # Any choice will do; to look for the best one takes longer.
    return _kept_solution(program, np.zeros_like(values))[1] is not None
