"""Policies side by side: intervals, common instances, the optimum, hindsight, and the picture of it all."""

import math
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from matplotlib.image import imread

import rampup
from rampup import intervals
from rampup.evaluation import evaluate, instance_keys, outcomes
from rampup.exact import bcp as exact_bcp
from rampup.references import policy_named
from rampup.references.hindsight import hindsight
from rampup.report.comparison import checked_picture_name, draw_comparison

BEST_CHOICE = rampup.make("bcp", n=20)
KNAPSACK = rampup.make("okd", n=6, B=1, V=1.5)
# Its bids are in part continuous, in part a fixed number: no dynamic program reaches it.
ADWORDS = rampup.make("adw", n=3, m=5, V=2.4, bids="special")
# Whole tenths, on which the dynamic program is exact and quick.
TENTHS = {"kind": "empirical", "sample": [0.2, 0.5, 0.9]}
LATTICE = rampup.make("okd", n=6, B=2.0, V=2.3, sizes=TENTHS, values=TENTHS)

NAMES = {
    "bcp": ["optimal", "threshold:3", "naive"],
    "okd": ["bang_per_buck:1.5", "greedy", "naive"],
    "adw": ["greedy", "best_fit", "msvv", "balance", "naive"],
}


def chosen(problem, *names):
    return {name: policy_named(problem, name) for name in names}


def test_the_quantile_is_that_of_the_normal_distribution():
    assert pytest.approx(scipy.stats.norm.ppf(0.975), rel=1e-15) == intervals.Z
    assert intervals.normal(2.0, 0.5) == pytest.approx(scipy.stats.norm.interval(0.95, 2.0, 0.5))


@pytest.mark.parametrize("count", [1, 2, 7, 100, 12_345])
def test_the_interval_of_a_rate_is_wilsons(count):
    for successes in sorted({0, 1, count // 3, count - 1, count}):
        given = np.zeros(count)
        given[:successes] = 1.0
        known = scipy.stats.binomtest(successes, count).proportion_ci(0.95, method="wilson")
        assert intervals.of_rate(given) == pytest.approx([known.low, known.high], rel=1e-12, abs=1e-15)
    assert intervals.of_rate(np.zeros(count))[0] == 0.0
    assert intervals.of_rate(np.ones(count))[1] == 1.0


def test_the_interval_of_a_mean_is_that_of_scipy():
    for count in (2, 3, 1000):
        values = np.random.default_rng(count).exponential(size=count)
        known = scipy.stats.t.interval(0.95, count - 1, loc=values.mean(), scale=scipy.stats.sem(values))
        assert intervals.of_mean(values) == pytest.approx(known, rel=1e-12)
    assert intervals.of_mean(np.ones(1)) == [-math.inf, math.inf]


def test_the_interval_of_a_ratio_holds_the_ratio_as_often_as_it_says():
    # As with hindsight: whoever sees all succeeds with chance 0.6, and there the player does with chance 0.7.
    repeats, count = 4000, 1000
    generator = np.random.default_rng(0)
    below = generator.random((repeats, count)) < 0.6
    above = below & (generator.random((repeats, count)) < 0.7)
    ends = np.asarray(
        [intervals.of_ratio(*pair) for pair in zip(above.astype(float), below.astype(float), strict=True)]
    )
    coverage = np.mean((ends[:, 0] <= 0.7) & (ends[:, 1] >= 0.7))
    # The delta method errs in proportion to 1/count, and success rates come in steps of 1/count.
    assert coverage == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / repeats) + 2 / count)
    # On average its half width is 1.96 standard deviations of the ratio, whose own estimate errs by 1/sqrt(2 repeats).
    spread = np.std(above.mean(axis=1) / below.mean(axis=1), ddof=1)
    margins = np.mean(ends[:, 1] - ends[:, 0]) / 2
    assert margins == pytest.approx(intervals.Z * spread, rel=4 / math.sqrt(2 * repeats) + 2 / count)


def test_the_interval_of_a_ratio_that_never_varies_is_a_point():
    assert intervals.of_ratio(np.full(9, 0.5), np.ones(9)) == [0.5, 0.5]
    assert intervals.of_ratio(np.ones(1), np.ones(1)) == [-math.inf, math.inf]


@pytest.mark.parametrize("problem", [BEST_CHOICE, KNAPSACK, ADWORDS], ids=["bcp", "okd", "adw"])
def test_a_policy_earns_alone_what_it_earns_beside_others(problem):
    kind = {rampup.BCP: "bcp", rampup.OKD: "okd", rampup.ADW: "adw"}[type(problem)]
    policies = chosen(problem, *NAMES[kind])
    told = []
    together = outcomes(problem, policies, episodes=5000, seed=3, on_progress=lambda *call: told.append(call))
    assert told == [(f"playing {name}", done, 2) for name in policies for done in (1, 2)]
    for name, policy_fn in policies.items():
        alone = outcomes(problem, {name: policy_fn}, episodes=5000, seed=3)[name]
        assert np.array_equal(alone.successes, together[name].successes)
        assert np.array_equal(alone.collected, together[name].collected)
        shorter = outcomes(problem, {name: policy_fn}, episodes=77, seed=3)[name]
        assert np.array_equal(shorter.successes, alone.successes[:77])
        assert np.array_equal(shorter.collected, alone.collected[:77])
        other = outcomes(problem, {name: policy_fn}, episodes=5000, seed=4)[name]
        assert not np.array_equal(other.successes, alone.successes)
    # Success is to have collected the target; in best choice, to have won.
    target = 1.0 if kind == "bcp" else float(problem.target)
    for one in together.values():
        assert np.array_equal(one.successes == 1, one.collected >= target)
        assert set(one.successes) == {0.0, 1.0}


def test_the_optimal_policy_succeeds_as_often_as_the_exact_value_says():
    episodes = 40_960
    value = float(exact_bcp.optimum(BEST_CHOICE.record_probs).value)
    answer = evaluate(BEST_CHOICE, chosen(BEST_CHOICE, "optimal"), episodes=episodes, with_optimum=True)
    (entry,) = answer["policies"]
    assert abs(entry["value"] - value) <= 4 * math.sqrt(value * (1 - value) / episodes)
    assert answer["optimum"] == {"lower": value, "upper": value, "method": "exact"}
    assert entry["exact_value"] == pytest.approx(value, rel=1e-14)
    assert entry["gap_to_optimum"] == pytest.approx([0.0, 0.0], abs=1e-15)
    assert answer["hindsight"] is None
    assert "competitive_ratio" not in entry


def test_the_exact_value_of_a_threshold_rule_is_that_of_the_recursion():
    episodes = 4096
    counts = range(21)
    answer = evaluate(BEST_CHOICE, chosen(BEST_CHOICE, *(f"threshold:{count}" for count in counts)), episodes=episodes)
    for count, entry in zip(counts, answer["policies"], strict=True):
        policy = exact_bcp.threshold_policy(20, count)
        value = float(exact_bcp.values(BEST_CHOICE.record_probs, policy).start)
        assert entry["policy"] == f"threshold:{count}"
        assert entry["exact_value"] == pytest.approx(value, abs=1e-15)
        assert abs(entry["value"] - value) <= 4 * math.sqrt(value * (1 - value) / episodes)
        assert entry["collected"] == entry["value"]
    assert len(answer["differences"]) == 21 * 20 // 2


def test_a_paired_difference_is_sharper_than_one_of_independent_rates():
    policies = chosen(BEST_CHOICE, "threshold:7", "threshold:8")
    answer = evaluate(BEST_CHOICE, policies, episodes=4096)
    one, other = answer["policies"]
    (pair,) = answer["differences"]
    assert (pair["policy"], pair["minus"]) == ("threshold:7", "threshold:8")
    assert pair["difference"] == pytest.approx(one["value"] - other["value"], abs=1e-14)
    # The two rules part in few instances; the interval is that of the variance of a difference.
    both = np.cov([each.successes for each in outcomes(BEST_CHOICE, policies, episodes=4096).values()])
    variance = both[0, 0] + both[1, 1] - 2 * both[0, 1]
    half_width = (pair["interval"][1] - pair["interval"][0]) / 2
    assert half_width == pytest.approx(intervals.reach(4096) * math.sqrt(variance / 4096), rel=1e-12)
    assert half_width < 0.5 * intervals.Z * math.sqrt((both[0, 0] + both[1, 1]) / 4096)


def seen_beforehand(problem, seed, count):
    """What an all-seeing player makes of the first instances of an evaluation."""
    draw = lambda key: problem.draw(jax.random.split(key)[0])
    return hindsight(problem, jax.vmap(draw)(instance_keys(seed, count)))


@pytest.mark.parametrize(("problem", "kind"), [(KNAPSACK, "okd"), (ADWORDS, "adw")], ids=["okd", "adw"])
def test_no_policy_beats_hindsight_on_the_same_instances(problem, kind):
    count, seed = 300, 5
    policies = chosen(problem, *NAMES[kind])
    answer = evaluate(problem, policies, episodes=1000, seed=seed, hindsight_instances=count)
    ceiling = seen_beforehand(problem, seed, count).astype(float)
    assert answer["hindsight"] == {
        "value": ceiling.mean(),
        "interval": intervals.of_rate(ceiling),
        "instances": count,
    }
    assert 0 < ceiling.mean() < 1
    played = outcomes(problem, policies, episodes=1000, seed=seed)
    for entry in answer["policies"]:
        all_own = played[entry["policy"]].successes
        own = all_own[:count]
        assert np.all(own <= ceiling)
        assert entry["value"] == all_own.mean()
        assert entry["gap_to_hindsight"] == pytest.approx(ceiling.mean() - own.mean(), abs=1e-15)
        assert entry["gap_to_hindsight_interval"] == intervals.of_mean(ceiling - own)
        assert entry["competitive_ratio"] == pytest.approx(1 - entry["gap_to_hindsight"] / ceiling.mean(), abs=1e-15)
        low, high = entry["competitive_ratio_interval"]
        assert low <= entry["competitive_ratio"] <= high


def test_of_nothing_there_is_no_part():
    # The target takes all six items, whose sizes come to less than 0.06 in none of these instances.
    problem = rampup.make("okd", n=6, B=0.06, V=5.9)
    (entry,) = evaluate(problem, chosen(problem, "greedy"), episodes=50, hindsight_instances=50)["policies"]
    assert entry["gap_to_hindsight"] == 0.0
    assert entry["competitive_ratio"] is None
    assert entry["competitive_ratio_interval"] is None


def test_where_no_dynamic_program_reaches_hindsight_bounds_the_optimum():
    policies = chosen(ADWORDS, *NAMES["adw"])
    answer = evaluate(ADWORDS, policies, episodes=300, with_optimum=True, hindsight_instances=20)
    best, seen = answer["optimum"], answer["hindsight"]
    assert best["method"] == "hindsight"
    # A bound needs more instances than were asked for, and takes all there are.
    assert seen["instances"] == 300
    assert seen["value"] == seen_beforehand(ADWORDS, 0, 300).mean()
    assert best["upper"] == seen["interval"][1]
    assert best["lower"] == max(entry["interval"][0] for entry in answer["policies"])
    assert best["lower"] <= best["upper"]
    for entry in answer["policies"]:
        low, high = entry["interval"]
        assert entry["gap_to_optimum"] == [max(0.0, best["lower"] - high), best["upper"] - low]


def test_the_dynamic_program_lends_its_bounds_to_all():
    policies = chosen(LATTICE, "dynamic_program", "greedy")
    answer = evaluate(LATTICE, policies, episodes=8192, with_optimum=True)
    best, grid_policy = answer["optimum"], policies["dynamic_program"]
    assert best == {
        "lower": float(grid_policy.lower),
        "upper": float(grid_policy.upper),
        "method": "dynamic_program",
    }
    # On a lattice both bounds are the optimum itself, which the policy earns.
    assert best["lower"] == pytest.approx(best["upper"], abs=1e-12)
    deviation = math.sqrt(best["lower"] * (1 - best["lower"]) / 8192)
    optimal, greedy = answer["policies"]
    assert abs(optimal["value"] - best["lower"]) <= 4 * deviation
    assert optimal["gap_to_optimum"][0] <= 4 * deviation
    assert greedy["gap_to_optimum"][0] > 0
    assert evaluate(LATTICE, chosen(LATTICE, "greedy"), episodes=8192, with_optimum=True)["optimum"] == best


@pytest.fixture(scope="module")
def compared():
    policies = chosen(KNAPSACK, *NAMES["okd"])
    answer = evaluate(KNAPSACK, policies, episodes=1000, hindsight_instances=50)
    return {"problem": "okd", "optimum": None} | answer


def with_bounds(answer):
    return answer | {"optimum": {"lower": 0.5, "upper": 0.55, "method": "dynamic_program"}}


def test_the_picture_is_a_png(compared, tmp_path):
    for name, answer in {"plain.png": compared, "bounds.PNG": with_bounds(compared)}.items():
        draw_comparison(answer, str(tmp_path / name))
        content = (tmp_path / name).read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert content.endswith(b"IEND\xaeB`\x82")
        pixels = imread(tmp_path / name, format="png")
        assert min(pixels.shape[:2]) > 300
        assert pixels.std() > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bounds.PNG", "plain.png"]


def test_the_picture_is_a_pdf(compared, tmp_path):
    draw_comparison(with_bounds(compared), str(tmp_path / "new" / "picture.pdf"))
    content = (tmp_path / "new" / "picture.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert content.rstrip().endswith(b"%%EOF")


def test_the_picture_is_an_svg(compared, tmp_path):
    draw_comparison(compared | {"hindsight": None}, str(tmp_path / "picture.svg"))
    root = ElementTree.parse(tmp_path / "picture.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    comments = (tmp_path / "picture.svg").read_text()
    assert all(f"<!-- {entry['policy']} -->" in comments for entry in compared["policies"])


@pytest.mark.parametrize("name", ["picture.jpg", "picture", "picture.png.txt", ".png", ""])
def test_a_picture_with_another_ending_is_refused(name, compared, tmp_path):
    with pytest.raises(ValueError, match=r"`picture` must end in .png, .pdf, .svg, got '.*'\.$"):
        checked_picture_name(name)
    with pytest.raises(ValueError, match="`picture` must end in"):
        draw_comparison(compared, str(tmp_path / name) if name else name)
    assert list(tmp_path.iterdir()) == []


def test_a_policy_file_of_any_name_can_be_drawn(compared, tmp_path):
    entries = [entry | {"policy": "$run^$.json"} for entry in compared["policies"][:1]]
    draw_comparison(compared | {"policies": entries}, str(tmp_path / "picture.svg"))


def test_what_cannot_be_evaluated_is_refused():
    policies = chosen(KNAPSACK, "greedy")
    with pytest.raises(ValueError, match=r"^`episodes` must be a whole number of at least 2, got 1\.$"):
        evaluate(KNAPSACK, policies, episodes=1)
    with pytest.raises(ValueError, match=r"^`episodes` must be a whole number of at least 1, got 0\.$"):
        outcomes(KNAPSACK, policies, episodes=0)
    with pytest.raises(ValueError, match=r"^`hindsight` must be at most 10, got 11\.$"):
        evaluate(KNAPSACK, policies, episodes=10, hindsight_instances=11)
    with pytest.raises(ValueError, match=r"^`hindsight` must be a whole number of at least 0, got -1\.$"):
        evaluate(KNAPSACK, policies, hindsight_instances=-1)
    with pytest.raises(ValueError, match=r"^`policies` must hold at least one policy\.$"):
        evaluate(KNAPSACK, {})
    for seed in (-1, 2**32, 0.5):
        with pytest.raises(ValueError, match=r"^`seed` must be"):
            evaluate(KNAPSACK, policies, seed=seed)
    with jax.enable_x64(False), pytest.raises(ValueError, match="exact answers need 64-bit numbers"):
        evaluate(KNAPSACK, policies)


def test_random_policies_are_compared_with_the_same_random_numbers():
    # Two that choose at random, one a little bolder: whoever accepts by the first accepts by the second.
    def boldness(log_odds):
        return lambda observation: jax.nn.log_sigmoid(jnp.asarray([-log_odds, log_odds]))

    problem = rampup.make("bcp", n=1)
    shy, bold = outcomes(problem, {"shy": boldness(0.0), "bold": boldness(0.2)}, episodes=4096).values()
    assert np.all(shy.successes <= bold.successes)
    for one, log_odds in ((shy, 0.0), (bold, 0.2)):
        chance = 1 / (1 + math.exp(-log_odds))
        assert abs(one.successes.mean() - chance) <= 4 * math.sqrt(chance * (1 - chance) / 4096)
