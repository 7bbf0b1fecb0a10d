"""The optimal online value of knapsack and AdWords: brute force, bounds that hold, policies that earn them."""

from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rampup
from rampup.evaluation import outcomes
from rampup.exact import adw, okd
from rampup.exact.grids import TooLargeError, below, common_unit, exact_unit
from rampup.problems.distributions import Histogram, Special, Uniform


def tenths(numbers):
    return {"kind": "empirical", "sample": [number / 10 for number in numbers]}


def brute_force_knapsack(n, budget, target, sizes, values):
    """The optimal value in whole tenths, by plain recursion over everything that can happen."""

    @cache
    def best(left, free, need):
        if need <= 0:
            return 1.0
        if left == 0:
            return 0.0
        stay = best(left - 1, free, need)
        total = 0.0
        for size, value in product(sizes, values):
            go = best(left - 1, free - size, need - value) if size <= free else 0.0
            total += max(stay, go)
        return total / (len(sizes) * len(values))

    return best(n, budget, target)


@pytest.mark.parametrize(
    ("n", "budget", "target", "sizes", "values"),
    [
        (6, 20, 25, [2, 5, 9], [3, 7, 10]),
        (5, 13, 12, [0, 4, 4, 10], [1, 5]),
        (1, 0, 1, [0], [1]),
        (4, 25, 30, [1, 2, 3], [8, 10]),
        (6, 7, 9, [3, 5, 7], [2, 3, 4, 5]),
    ],
)
def test_the_knapsack_optimum_is_exact_on_lattices(n, budget, target, sizes, values):
    found = okd.optimum(
        rampup.make("okd", n=n, B=budget / 10, V=target / 10, sizes=tenths(sizes), values=tenths(values))
    )
    truth = brute_force_knapsack(n, budget, target, tuple(sizes), tuple(values))
    assert float(found.lower) == pytest.approx(truth, abs=1e-12)
    assert float(found.upper) == pytest.approx(truth, abs=1e-12)


def brute_force_auction(budgets, slots, target, bids):
    @cache
    def best(left, free):
        earned = len(free) * budgets - sum(free)
        if earned >= target:
            return 1.0
        if left == 0:
            return 0.0
        total = 0.0
        for offer in product(bids, repeat=len(free)):
            choices = [best(left - 1, free)]
            for i, bid in enumerate(offer):
                if bid <= free[i]:
                    choices.append(best(left - 1, (*free[:i], free[i] - bid, *free[i + 1 :])))
            total += max(choices)
        return total / len(bids) ** len(free)

    return lambda advertisers: best(slots, (budgets,) * advertisers)


@pytest.mark.parametrize(
    ("advertisers", "slots", "target", "bids"),
    [
        (1, 4, 9, [2, 5, 7]),
        (2, 4, 15, [0, 4, 6, 10]),
        (3, 4, 21, [4, 8]),
        (2, 3, 12, [3, 7, 12]),
        (1, 1, 10, [10]),
    ],
)
def test_the_auction_optimum_is_exact_on_lattices(advertisers, slots, target, bids):
    found = adw.optimum(rampup.make("adw", n=advertisers, m=slots, V=target / 10, bids=tenths(bids)))
    truth = brute_force_auction(10, slots, target, tuple(bids))(advertisers)
    assert found.lower == pytest.approx(truth, abs=1e-12)
    assert found.upper == pytest.approx(truth, abs=1e-12)


def test_advertisers_with_bids_of_their_own_are_told_apart():
    bids = [{"kind": "empirical", "sample": [0.5]}, {"kind": "empirical", "sample": [0.0, 1.0]}]
    # Both budgets are needed: the first has its half in both slots, the second its 1 in either with chance 1/2.
    found = adw.optimum(rampup.make("adw", n=2, m=2, V=1.5, bids=bids))
    assert found.lower == found.upper == pytest.approx(3 / 4)


def played(problem, policy, episodes, seed=0):
    successes = outcomes(problem, {"it": policy}, episodes=episodes, seed=seed)["it"].successes
    return float(successes.mean()), float(successes.std() / np.sqrt(episodes))


@pytest.mark.parametrize(
    "parameters",
    [
        {"n": 10, "B": 1, "V": 2},
        pytest.param(
            {"n": 12, "B": 1.33, "V": 2.17, "sizes": {"kind": "uniform", "low": 0.1, "high": 0.7}},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"n": 15, "B": 2, "V": 4, "sizes": "random_histogram", "values": {"kind": "random_histogram", "seed": 5}},
            marks=[pytest.mark.slow, pytest.mark.long],
        ),
        pytest.param({"n": 5, "B": 1.5, "V": 1.9, "values": "special"}, marks=[pytest.mark.slow, pytest.mark.long]),
        pytest.param(
            {"n": 8, "B": 1, "V": 1.2, "sizes": {"kind": "empirical", "sample": [0.1234567, 0.31, 0.7]}},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_grid_policy_earns_its_lower_bound_and_nobody_the_upper(parameters):
    problem = rampup.make("okd", **parameters)
    policy = okd.optimum(problem, tolerance=0.003)
    rate, error = played(problem, policy, 40_000)
    assert policy.lower <= policy.upper
    assert policy.lower - 4 * error <= rate <= policy.upper + 4 * error


@pytest.mark.slow
@pytest.mark.long
def test_bounds_of_finer_grids_lie_inside_those_of_coarser_ones():
    problem = rampup.make("okd", n=10, B=1, V=2)
    seen = []
    okd.optimum(problem, tolerance=0.0005, on_bounds=lambda *bounds: seen.append(bounds))
    lowers, uppers = zip(*seen, strict=True)
    assert len(seen) >= 3
    assert list(lowers) == sorted(lowers)
    assert list(uppers) == sorted(uppers, reverse=True)
    assert uppers[-1] - lowers[-1] <= 0.0005


def recursion(grid, horizon, is_favourable):
    shape, probs = (grid.budget.num_points, grid.need.num_points), (grid.budget.probs, grid.need.probs)
    return okd._smooth_recursion(shape, *map(jnp.asarray, probs), horizon, is_favourable)[0]


def between_points(table, grid, points):
    widths = jnp.asarray([grid.budget.width, grid.need.width])
    at = lambda point: okd._interpolated(table[None], jnp.asarray(0), *(point / widths))
    return np.asarray(jax.vmap(at)(jnp.asarray(points)))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("is_favourable", [True, False])
def test_interpolation_errs_to_its_side_between_the_points_of_the_grid(is_favourable):
    problem = rampup.make("okd", n=6, B=1.5, V=2)
    grids = list(okd._grids(problem))
    coarse, fine = grids[1][0 if is_favourable else 1], grids[5]
    points = np.random.default_rng(0).uniform([0.0, 1e-6], [1.5, 2.0], size=(2000, 2))
    rough = between_points(okd._lifted(recursion(coarse, 5, is_favourable), is_favourable), coarse, points)
    # On a grid six times as fine the errors are 36 times smaller: its bounds stand for the truth.
    sides = zip(fine, (True, False), strict=True)
    above, under = (between_points(recursion(grid, 5, side), grid, points) for grid, side in sides)
    truth, spread = (above + under) / 2, (above - under) / 2
    difference = (rough - truth) if is_favourable else (truth - rough)
    assert np.all(difference > -spread - 1e-4)
    assert spread.max() < 0.01 < difference.max()


@pytest.mark.parametrize(
    ("parameters", "truth"),
    # One advertiser wins whenever a bid hits a window of width 1 - V that moves with what was paid.
    [({"n": 1, "m": 3, "V": 0.9}, 1 - 0.9**3), ({"n": 1, "m": 5, "V": 0.75}, 1 - 0.75**5)],
)
def test_one_advertiser_with_uniform_bids_is_a_game_of_windows(parameters, truth):
    found = adw.optimum(rampup.make("adw", **parameters))
    assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
    assert found.upper - found.lower <= 0.005


@pytest.mark.slow
@pytest.mark.long
def test_uniform_bids_are_the_limit_of_finer_and_finer_lattices():
    found = adw.optimum(rampup.make("adw", n=2, m=3, V=1.2))
    errors = []
    for cells in (10, 20, 40):
        # The middles of the cells, kept from meeting the target by rounding of the lattice itself.
        bids = {"kind": "empirical", "sample": [(2 * k + 1) / (2 * cells) for k in range(cells)]}
        lattice = adw.optimum(rampup.make("adw", n=2, m=3, V=1.2, bids=bids))
        assert lattice.lower == pytest.approx(lattice.upper, abs=1e-12)
        errors.append(abs(lattice.lower - (found.lower + found.upper) / 2))
    assert errors[-1] < 0.02
    assert errors[-1] < errors[0]


def test_what_no_grid_reaches_says_so():
    with pytest.raises(TooLargeError, match="too large for dynamic programming"):
        adw.optimum(rampup.make("adw", n=10, m=20, V=9))
    with pytest.raises(TooLargeError, match="too large for dynamic programming"):
        adw.optimum(rampup.make("adw", n=3, m=6, V=2.64, bids="special"))
    with pytest.raises(TooLargeError, match="too large for dynamic programming"):
        okd.optimum(rampup.make("okd", n=100_000, B=10_000, V=25_000))


@pytest.mark.parametrize("distribution", [Uniform(0.2, 0.7), Histogram([1.0, 0.0, 3.0]), Special(), Special(prob=1.0)])
def test_below_is_the_distribution_function(distribution):
    points = np.array([-0.1, 0.0, 0.2, 0.35, 0.4, 0.4 + 1e-9, 0.66, 1.0, 1.2])
    drawn = np.asarray(distribution.quantile(jnp.asarray((np.arange(200_000) + 0.5) / 200_000)))
    empirical = (drawn[None, :] < points[:, None]).mean(axis=1)
    np.testing.assert_allclose(below(distribution, points), empirical, atol=1e-5)


def test_units():
    assert common_unit([0.4, 1.0], 1.0) == pytest.approx(0.2)
    assert common_unit([np.pi], 4.0) is None
    assert exact_unit(Special(prob=1.0)) == pytest.approx(0.4)
    assert exact_unit(Special()) is None
    assert exact_unit(Uniform()) is None


@pytest.mark.long
@pytest.mark.slow
def test_the_uniform_knapsack_of_the_paper_is_bounded_within_half_a_percent():
    problem = rampup.make("okd", n=100, B=10, V=25)
    policy = okd.optimum(problem)
    assert policy.upper - policy.lower <= 0.005
    assert 0.51 < policy.lower < policy.upper < 0.54
    rate, error = played(problem, policy, 100_000)
    assert policy.lower - 1.96 * error <= rate <= policy.upper + 1.96 * error
