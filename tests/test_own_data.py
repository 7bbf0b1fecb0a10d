"""From the user's own table to a policy: problems made of rows, held-out sequences as they came, and the commands."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import rampup
from rampup import advice, integer_programs, streams
from rampup.conductor import begin, conduct
from rampup.config import checked
from rampup.data.sequences import load_data
from rampup.evaluation import online_optimum
from rampup.exact import adw as exact_adw
from rampup.exact import okd as exact_okd
from rampup.exact.grids import TooLargeError
from rampup.exporting import rules_of
from rampup.held_out import evaluate_held_out, held_out_outcomes, instances_of
from rampup.problems import files_of, units_of
from rampup.problems.rows import unit_for
from rampup.references import policy_named
from rampup.references.rules import best_ratio
from rampup.runs.policy_file import write_policy

LENGTH = {"bcp": 8, "okd": 10, "adw": 6}
OWN = {
    "bcp": {},
    "okd": {"n": 10, "B": 60.0, "V": 220.0},
    "adw": {"n": 3, "m": 6, "V": 15.0, "budgets": 13.0},
}
RULES = {
    "bcp": ["optimal", "threshold:3", "naive"],
    "okd": ["bang_per_buck", "bang_per_buck:3.5", "greedy", "naive"],
    "adw": ["greedy", "best_fit", "msvv", "balance", "naive"],
}
COLUMNS = {
    "bcp": {"sequence": "run", "value": "score"},
    "okd": {"sequence": "run", "size": "weight", "value": "price"},
    "adw": {"sequence": "run", "bids": ["a", "b", "c"]},
}


def rows_of(name, count, seed=0):
    """Whole numbers, size and value (or the bids) far from independent; the last row larger than all before."""
    chance = np.random.default_rng(seed)
    shape = count, LENGTH[name]
    if name == "bcp":
        return chance.normal(size=(*shape, 1)).cumsum(axis=1).round(6) * 0.3 + chance.normal(size=(*shape, 1)).round(6)
    if name == "okd":
        sizes = chance.integers(1, 21, shape)
        found = np.stack([sizes, 3 * sizes + chance.integers(0, 25, shape)], axis=-1)
    else:
        found = chance.integers(0, 3, (*shape, 1)) * chance.integers(1, 4, (*shape, 3))
    found[-1, -1] = (29, 99) if name == "okd" else (9, 8, 7)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("own")
    for name in OWN:
        write_data(place, name)
    return place


def write_data(place, name, count=24, seed=0, **changes):
    rows = rows_of(name, count, seed)
    header = [one for one in COLUMNS[name].values() if isinstance(one, str)] + COLUMNS[name].get("bids", [])
    lines = [",".join(header)]
    for run, sequence in enumerate(rows):
        lines += [",".join([str(run), *(repr(cell) for cell in row.tolist())]) for row in sequence]
    (place / f"{name}.csv").write_text("\n".join(lines) + "\n")
    document = {"problem": name, "file": f"{name}.csv", "columns": COLUMNS[name]} | changes
    (place / f"{name}.yaml").write_text(yaml.safe_dump(document))
    return str(place / f"{name}.yaml")


def made(folder, name, **changes):
    return rampup.make(name, **(OWN[name] | {"data": str(folder / f"{name}.yaml")} | changes))


@pytest.mark.parametrize("name", OWN)
def test_problems_of_data_keep_the_contract(folder, name):
    rampup.check_problem(made(folder, name), episodes=16)


VALUE_FORMS = {"okd_value": ("okd", ["V"]), "adw_value": ("adw", ["V"])}


def made_in_value_form(folder, name):
    kind, left_out = VALUE_FORMS[name]
    given = {key: value for key, value in OWN[kind].items() if key not in left_out}
    return rampup.make(name, **given, data=str(folder / f"{kind}.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUE_FORMS)
def test_value_forms_of_data_earn_what_is_collected_in_the_users_units(folder, name):
    problem, kind = made_in_value_form(folder, name), VALUE_FORMS[name][0]
    rampup.check_problem(problem, episodes=16)
    data = rampup.load_data(folder / f"{kind}.yaml")
    rule = "greedy"
    answer = rampup.evaluate_held_out(problem, {rule: rampup.policy_named(problem, rule)}, data, hindsight_sequences=3)
    collected = []
    for rows in data.numbers(data.holdout):
        if kind == "okd":
            used = value = 0.0
            for size, worth in rows:
                if used + size <= OWN["okd"]["B"]:
                    used, value = used + size, value + worth
            collected.append(value)
        else:
            budgets, revenue = np.full(rows.shape[1], float(OWN["adw"]["budgets"])), 0.0
            for bids in rows:
                can_pay = (budgets >= bids) & (bids > 0)
                if can_pay.any():
                    winner = int(np.argmax(np.where(can_pay, bids, -np.inf)))
                    budgets[winner] -= bids[winner]
                    revenue += bids[winner]
            collected.append(revenue)
    (entry,) = answer["policies"]
    assert entry["collected"] == pytest.approx(np.mean(collected), rel=1e-12)
    unit = problem.value_unit if kind == "okd" else problem.bid_unit
    assert entry["value"] * float(problem.scale) * unit == pytest.approx(np.mean(collected), rel=1e-12)
    assert answer["hindsight"]["value"] >= 0


@pytest.mark.parametrize("name", ["okd", "adw"])
def test_whole_sequences_are_drawn_in_their_own_order(tmp_path, name):
    path = write_data(tmp_path, name, draw="sequences")
    problem, data = made(tmp_path, name), rampup.load_data(path)
    rampup.check_problem(problem, episodes=16)
    known = {rows.tobytes() for rows in np.ascontiguousarray(data.numbers(data.train))}
    drawn = jax.vmap(problem.draw)(jax.random.split(jax.random.key(0), 200))
    found = {np.ascontiguousarray(rows).tobytes() for rows in in_users_units(problem, drawn)}
    # With 200 draws of 18 sequences one is missed with a chance of 18 (17/18)^200, below 1 in 4000.
    assert found == known
    size = "n" if name == "okd" else "m"
    shorter = made(tmp_path, name, **{size: LENGTH[name] - 2, "V": 1.0})
    begun = in_users_units(shorter, shorter.draw(jax.random.key(1)))
    assert any(np.array_equal(begun, rows[: LENGTH[name] - 2]) for rows in data.numbers(data.train))
    with pytest.raises(ValueError, match=f"`{size}` must be at most {LENGTH[name]}, the length of the sequences drawn"):
        made(tmp_path, name, **{size: LENGTH[name] + 1})


def test_best_choice_draws_no_sequences(tmp_path):
    write_data(tmp_path, "bcp", draw="sequences")
    with pytest.raises(ValueError, match="`draw: sequences` is for okd and adw"):
        made(tmp_path, "bcp")


def in_users_units(problem, instance):
    if isinstance(problem, rampup.OKD):
        return np.stack([instance.sizes * problem.size_unit, instance.values * problem.value_unit], axis=-1)
    return np.asarray(instance.bids) * problem.bid_unit


@pytest.mark.parametrize("name", ["okd", "adw"])
@pytest.mark.parametrize("small", [False, True])
def test_arrivals_are_training_rows_kept_whole_and_none_of_the_holdout(folder, name, small):
    problem = made(folder, name, **({"okd": {"n": 4}, "adw": {"n": 2, "m": 4, "V": 9.0}}[name] if small else {}))
    dataset = load_data(folder / f"{name}.yaml")
    num_columns = 2 if name == "okd" else problem.num_actions - 1
    known = {tuple(row) for row in dataset.numbers(dataset.train).reshape(-1, len(dataset.names))[:, :num_columns]}
    keys = jax.random.split(streams.key(3), 400)
    drawn = in_users_units(problem, jax.jit(jax.vmap(problem.draw))(keys)).reshape(-1, num_columns)
    assert {tuple(row) for row in drawn} <= known
    # Every row equally often: so many draws miss one with a chance below e^-20 each.
    table = dataset.numbers(dataset.train).reshape(-1, len(dataset.names))[:, :num_columns]
    if len(drawn) / len(table) > 20:
        assert {tuple(row) for row in drawn} == known
    # Size and value go together as they do in the rows; five standard errors.
    for column in range(num_columns):
        error = table[:, column].std() / np.sqrt(len(drawn))
        assert abs(drawn[:, column].mean() - table[:, column].mean()) <= 5 * error
    product = table[:, 0] * table[:, 1]
    assert abs((drawn[:, 0] * drawn[:, 1]).mean() - product.mean()) <= 5 * product.std() / np.sqrt(len(drawn))


def test_bounds_hold_all_rows_of_the_file(folder):
    for name in ("okd", "adw"):
        problem, dataset = made(folder, name), load_data(folder / f"{name}.yaml")
        highest = dataset.rows.numbers.max(axis=0)
        assert (highest > dataset.numbers(dataset.train).max(axis=(0, 1))).all()
        rules = rules_of(problem)
        told = [rules["largest_size"], rules["largest_value"]] if name == "okd" else rules["highest_bids"]
        np.testing.assert_array_equal(told, highest)
        instances = instances_of(problem, dataset, dataset.holdout)
        lows, highs = problem.bounds()
        for instance in [jax.tree.map(lambda leaf, at=at: leaf[at], instances) for at in range(len(dataset.holdout))]:
            for position in range(problem.horizon):
                state = problem.init(instance)._replace(position=jnp.asarray(position, jnp.int32))
                seen = np.asarray(problem.observe(instance, state))
                assert ((seen >= lows) & (seen <= highs)).all()


@pytest.mark.parametrize("largest", [1.0, 0.5, 0.51, 3.0, 4.0, 1e-300, 5e-324, 1.7e308, 100.0])
def test_a_unit_is_the_power_of_two_at_or_above(largest):
    unit = unit_for(largest)
    assert np.frexp(unit)[0] == 0.5
    assert largest / 2 < unit
    assert unit >= min(largest, 2.0**1023)
    assert unit < 2 * largest or largest < 1e-323
    assert unit_for(0.0) == 1.0


def replayed(problem, policy_fn, instance, uniforms):
    """One episode, decision by decision, in the plainest way there is."""
    state, total, goes_on = problem.init(instance), 0.0, True
    for uniform in uniforms:
        if not goes_on:
            break
        probs = np.exp(np.asarray(policy_fn(problem.observe(instance, state))))
        action = int(np.sum(uniform >= np.cumsum(probs)[:-1]))
        state, reward, goes_on = problem.step(instance, state, jnp.asarray(action))
        total, goes_on = total + float(reward), bool(goes_on)
    return total, state


def by_hand(name, row_values, decide):
    """The game itself in the user's units: what `decide` says of an arrival and of what is left is done."""
    if name == "okd":
        room, value = OWN["okd"]["B"], 0.0
        for size, price in row_values:
            if value < OWN["okd"]["V"] and size <= room and decide(size, price, room):
                room, value = room - size, value + price
        return float(value >= OWN["okd"]["V"]), value
    left, revenue = [OWN["adw"]["budgets"]] * 3, 0.0
    for bids in row_values:
        winner = decide(bids, left)
        if revenue < OWN["adw"]["V"] and winner is not None:
            left[winner], revenue = left[winner] - bids[winner], revenue + bids[winner]
    return float(revenue >= OWN["adw"]["V"]), revenue


def greedy_advertiser(bids, left):
    able = [at for at in range(3) if 0 < bids[at] <= left[at]]
    return max(able, key=lambda at: bids[at], default=None)


def msvv_advertiser(bids, left):
    able = [at for at in range(3) if 0 < bids[at] <= left[at]]
    score = lambda at: bids[at] * (1 - np.exp(-left[at] / OWN["adw"]["budgets"]))
    return max(able, key=score, default=None)


HANDS = {
    "okd": {
        "greedy": lambda size, price, room: True,
        "bang_per_buck:3.5": lambda size, price, room: price >= 3.5 * size,
    },
    "adw": {"greedy": greedy_advertiser, "msvv": msvv_advertiser},
}


@pytest.mark.parametrize("name", ["okd", "adw"])
def test_rules_on_held_out_sequences_are_the_game_played_by_hand_in_the_users_units(folder, name):
    problem, dataset = made(folder, name), load_data(folder / f"{name}.yaml")
    policies = {rule: policy_named(problem, rule) for rule in HANDS[name]}
    found = held_out_outcomes(problem, policies, dataset, plays=1)
    for rule, decide in HANDS[name].items():
        known = [by_hand(name, sequence, decide) for sequence in dataset.numbers(dataset.holdout)]
        # To the last digit: units are powers of two.
        np.testing.assert_array_equal(np.stack(found[rule], axis=1), known)
    assert sum(found[next(iter(HANDS[name]))].collected) > 0


@pytest.mark.parametrize("name", OWN)
def test_held_out_outcomes_are_those_of_a_plain_loop(folder, name):
    problem, dataset = made(folder, name), load_data(folder / f"{name}.yaml")
    rules = RULES[name][0], "naive"
    policies = {rule: policy_named(problem, rule) for rule in rules}
    found = held_out_outcomes(problem, policies, dataset, plays=2, seed=4)
    instances = instances_of(problem, dataset, dataset.holdout)
    for at in (0, 3):
        instance = jax.tree.map(lambda leaf, at=at: leaf[at], instances)
        uniforms = jax.random.uniform(jax.random.fold_in(jax.random.key(4), at), (2, problem.horizon))
        for rule in rules:
            totals = [replayed(problem, policies[rule], instance, row)[0] for row in np.asarray(uniforms)]
            assert found[rule].successes[at] == pytest.approx(np.mean(totals), abs=1e-12)


def test_a_sequence_of_best_choice_is_won_by_its_best(folder):
    problem, dataset = made(folder, "bcp"), load_data(folder / "bcp.yaml")
    instances = instances_of(problem, dataset, dataset.holdout)
    values = dataset.numbers(dataset.holdout)[:, :, 0]
    np.testing.assert_array_equal(instances.best, np.argmax(values, axis=1))
    for threshold in (0, 3):
        wins = []
        for row in values:
            taken = [at for at in range(threshold, len(row)) if row[at] > max(row[:at], default=-np.inf)]
            wins.append(float(bool(taken) and row[taken[0]] == max(row)))
        policy = policy_named(problem, f"threshold:{threshold}")
        np.testing.assert_array_equal(held_out_outcomes(problem, {"it": policy}, dataset)["it"].successes, wins)


def test_the_series_of_fewer_arrivals_is_its_beginning(folder):
    whole, small = made(folder, "bcp"), made(folder, "bcp", n=5)
    assert whole.horizon == LENGTH["bcp"]
    np.testing.assert_array_equal(small.record_probs, whole.record_probs[:5])
    with pytest.raises(ValueError, match="`n` must be at most 8, the length of the sequences"):
        made(folder, "bcp", n=9)


def scaled_copy(place, name, factor):
    """The same data with every number of a size or price so many times as large."""
    other = place / f"times-{factor}"
    other.mkdir(exist_ok=True)
    write_data(other, name)
    lines = (other / f"{name}.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines[1:]]
    text = [",".join([row[0], *(repr(float(cell) * factor) for cell in row[1:])]) for row in cells]
    (other / f"{name}.csv").write_text("\n".join([lines[0], *text]) + "\n")
    return other


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["okd", "adw"])
def test_the_units_of_the_user_do_not_matter(folder, name):
    sized = {"okd": ("B", "V"), "adw": ("V", "budgets")}[name]
    found = []
    for factor in (1.0, 1024.0):
        place = scaled_copy(folder, name, factor)
        problem = made(place, name, **{key: OWN[name][key] * factor for key in sized})
        dataset = load_data(place / f"{name}.yaml")
        rules = {"okd": ["greedy", "naive"], "adw": ["msvv", "naive"]}
        policies = {rule: policy_named(problem, rule) for rule in rules[name]}
        found.append((problem, held_out_outcomes(problem, policies, dataset)))
    (one, played), (other, played_large) = found
    np.testing.assert_array_equal(one.rows.table, other.rows.table)
    assert one.bounds() == other.bounds()
    for rule, outcome in played.items():
        np.testing.assert_array_equal(outcome.successes, played_large[rule].successes)
        np.testing.assert_array_equal(outcome.collected * 1024, played_large[rule].collected)
    assert units_of(other) == {key: 1024 * unit for key, unit in units_of(one).items()}


def test_hindsight_of_sequences_is_that_of_the_users_own_numbers(folder):
    dataset = load_data(folder / "okd.yaml")
    problem = made(folder, "okd")
    answer = evaluate_held_out(problem, {"greedy": policy_named(problem, "greedy")}, dataset, hindsight_sequences=99)
    rows = dataset.numbers(dataset.holdout)
    known = [integer_programs.best_knapsack(one[:, 0], one[:, 1], 60.0) >= 220.0 for one in rows]
    assert answer["hindsight"]["value"] == np.mean(known)
    assert answer["hindsight"]["instances"] == answer["sequences"] == len(rows)
    problem, dataset = made(folder, "adw"), load_data(folder / "adw.yaml")
    answer = evaluate_held_out(problem, {"greedy": policy_named(problem, "greedy")}, dataset, hindsight_sequences=99)
    rows = dataset.numbers(dataset.holdout)
    known = [integer_programs.best_allocation(one, np.full(3, 13.0)) >= 15.0 for one in rows]
    assert answer["hindsight"]["value"] == np.mean(known)
    assert np.mean(known) > 0


def test_dynamic_programs_are_refused_and_hindsight_bounds_instead(folder):
    for name, optimum in (("okd", exact_okd.optimum), ("adw", exact_adw.optimum)):
        problem = made(folder, name)
        assert online_optimum(problem, {}) is None
        with pytest.raises(TooLargeError, match="where arrivals come from data"):
            optimum(problem)
    problem = made(folder, "okd")
    with pytest.raises(ValueError, match="where arrivals come from data"):
        policy_named(problem, "dynamic_program")
    answer = rampup.evaluate(problem, {"greedy": policy_named(problem, "greedy")}, episodes=200, with_optimum=True)
    assert answer["optimum"]["method"] == "hindsight"


def test_bang_per_buck_is_chosen_by_the_training_rows(folder):
    problem = made(folder, "okd")
    ratio = best_ratio(problem) * problem.value_unit / problem.size_unit
    # Prices are three times the weight and up to 24 more.
    assert 3 < ratio < 30
    given = policy_named(problem, f"bang_per_buck:{ratio!r}")
    assert float(given.ratio) == pytest.approx(best_ratio(problem), rel=1e-12)


def test_smaller_problems_of_data_are_in_the_users_units(folder):
    for name, keys in (("okd", ("B", "V")), ("adw", ("V",))):
        problem = made(folder, name, **({"n": 40, "B": 240.0, "V": 900.0} if name == "okd" else {"m": 30, "V": 33.0}))
        small = advice.smaller_problems(problem)
        assert small
        for changes, one in small:
            part = one.horizon / problem.horizon if name == "okd" else (one.num_actions - 1) / (problem.num_actions - 1)
            whole = {"B": 240.0, "V": 900.0 if name == "okd" else 33.0}
            for key in keys:
                assert changes[key] == pytest.approx(whole[key] * part, rel=1e-9)
            assert units_of(one) == units_of(problem)
            again = made(folder, name, **changes)
            assert again.bounds() == one.bounds()
            np.testing.assert_array_equal(again.target, one.target)


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("okd", {"sizes": "special"}, "give `sizes` or `data`, not both"),
        ("bcp", {"series": "random:3"}, "give `series` or `data`, not both"),
        ("adw", {"bids": "special"}, "give `bids` or `data`, not both"),
        ("adw", {"n": 4}, "`n` must be at most 3, the number of bid columns, got 4"),
        ("adw", {"budgets": -1.0}, "`budgets` must be a positive number, got -1.0"),
        ("okd", {"data": 3}, "`data` must be the path of a data description, got 3"),
        ("okd", {"data": "nowhere.yaml"}, "cannot read the data description 'nowhere.yaml'"),
        ("okd", {"V": 1e6}, "`V` = 1e+06 can never be reached: at most 10 items fit, worth at most 84 each"),
        ("adw", {"V": 40.0}, "3 budgets of 39 in all and 6 bids of at most 6 give at most 36"),
    ],
)
def test_what_does_not_fit_is_refused(folder, name, changes, sentence):
    with pytest.raises(ValueError, match=r".") as found:
        made(folder, name, **changes)
    assert sentence in str(found.value)


def test_data_for_another_problem_or_of_another_length_are_refused(folder):
    with pytest.raises(ValueError, match="describes data for adw, not for okd"):
        made(folder, "okd", data=str(folder / "adw.yaml"))
    dataset = load_data(folder / "okd.yaml")
    problem = made(folder, "okd", n=9)
    with pytest.raises(ValueError, match="`n` must be 10, the length of the sequences"):
        evaluate_held_out(problem, {"greedy": policy_named(problem, "greedy")}, dataset)


def test_a_policy_of_other_units_is_refused(folder, tmp_path):
    problem = made(folder, "okd")
    features = rampup.as_features("monomial:2", problem)
    for units, is_right in ((units_of(problem), True), ({"size": 1.0, "value": 1.0}, False), ({}, False)):
        write_policy(
            tmp_path / "policy.json",
            problem="okd",
            parameters={},
            features="monomial:2",
            theta=np.zeros(features.size),
            units=units,
        )
        if is_right:
            rampup.read_policy(tmp_path / "policy.json", problem)
        else:
            with pytest.raises(ValueError, match="this problem is in units of"):
                rampup.read_policy(tmp_path / "policy.json", problem)


def experiment(path, name, **changes):
    return checked(
        {
            "name": name,
            "problem": {"name": name, "parameters": OWN[name] | {"data": path}},
            "features": "monomial:2",
            "schemes": ["direct"],
            "seeds": 1,
            "trainer": {
                "iterations": 4,
                "learning_rate": 0.1,
                "num_lanes": 10,
                "record_every": 2,
                "effort": {"episodes": 64, "groups": 2, "replicates": 2},
            },
        }
        | changes,
        "here",
    )


def test_a_run_does_not_go_on_with_changed_data(tmp_path):
    path = write_data(tmp_path, "bcp")
    table = tmp_path / "bcp.csv"
    assert files_of("bcp", {"data": path}) == [path, str(table)]
    folder = begin(experiment(path, "bcp"), tmp_path / "run")
    assert sorted(folder.provenance["inputs"]) == sorted([path, str(table)])
    table.write_text(table.read_text().replace("-", "", 1))
    with pytest.raises(ValueError, match=r"bcp\.csv' is not what it was when the run"):
        conduct(folder)


WARMUPS = {"bcp": {"n": 4}, "okd": {"n": 4, "B": 24, "V": 88}, "adw": {"n": 2, "m": 4, "V": 8}}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", OWN)
def test_from_a_table_to_decisions_by_the_commands(tmp_path, called, name):
    path = write_data(tmp_path, name)
    code, output, _ = called("data", path, "--json")
    card = json.loads(output)
    assert (code, card["rows"], card["length"]) == (0, 24 * LENGTH[name], LENGTH[name])
    code, output, _ = called("data", path)
    assert code == 0
    assert "Nothing was dropped." in output
    whole = experiment(path, name, warmup={"parameters": WARMUPS[name]}, schemes=["curl"])
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(whole.model_dump(mode="json")))
    assert called("run", tmp_path / "experiment.yaml", "--out", tmp_path / "run")[0] == 0
    policy = tmp_path / "policy.json"
    assert called("export", tmp_path / "run", "-o", policy)[0] == 0
    settings = [part for key, value in OWN[name].items() for part in ("--set", f"{key}={value}")]
    rule = RULES[name][0]
    evaluation = ["evaluate", "--data", path, *settings, "--policy", policy, "--policy", rule, "--episodes", 200]
    code, output, complaint = called(*evaluation, "--hindsight", 20, "--json")
    assert code == 0, complaint
    answer = json.loads(output)
    held = answer["held_out"]
    assert (held["sequences"], held["arrivals"], held["plays"]) == (6, LENGTH[name], 16)
    assert [one["policy"] for one in held["policies"]] == [str(policy), rule]
    assert all(0 <= one["value"] <= 1 for one in held["policies"] + answer["policies"])
    assert held["hindsight"]["instances"] == 6
    code, output, _ = called(*evaluation)
    assert code == 0
    assert "6 held-out sequences" in output
    dataset = load_data(path)
    sequence = dataset.numbers(dataset.holdout)[0]
    keys = {"bcp": ["value"], "okd": ["size", "value"]}
    arrivals = [
        {"bids": row.tolist()} if name == "adw" else dict(zip(keys[name], row.tolist(), strict=True))
        for row in sequence
    ]
    text = "".join(json.dumps(one) + "\n" for one in arrivals)
    command = [sys.executable, "-m", "rampup", "decide", str(policy)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0]["number"] == 1
    assert 0 < answers[0]["probability"] <= 1
    # All that came is answered until the episode is over.
    over = [one for one in answers if "error" in one]
    assert all("the episode is over" in one["error"] for one in over)


def test_mistakes_on_the_command_line_are_one_line(tmp_path, called, folder):
    path = folder / "okd.yaml"
    (tmp_path / "bad.csv").write_text("run,weight,price\n0,1,2\n0,x,2\n")
    (tmp_path / "bad.yaml").write_text(path.read_text().replace("okd.csv", "bad.csv"))
    cases = [
        (("data", tmp_path / "bad.yaml"), f"{tmp_path / 'bad.csv'}, line 3: `weight` must be a number, got 'x'."),
        (("data", tmp_path / "none.yaml"), "cannot read the data description"),
        (("evaluate", "bcp", "--data", path, "--policy", "naive"), "describes data for okd, not for bcp"),
        (("evaluate", "--data", path, "--policy", "greedy"), "needs the parameter `B`"),
        (("evaluate", "okd", "--plays", 3, "--policy", "greedy"), "`--plays` is for `--data`"),
        (("evaluate", "--data", path), "give at least one `--policy`"),
    ]
    for arguments, sentence in cases:
        code, output, complaint = called(*arguments)
        assert (code, output, complaint.count("\n")) == (2, "", 1)
        assert sentence in complaint


def test_data_that_hold_nothing_out_have_nothing_to_be_evaluated_on(tmp_path, called):
    path = write_data(tmp_path, "okd", holdout=0.0)
    problem = rampup.make("okd", **OWN["okd"], data=path)
    with pytest.raises(ValueError, match="holds nothing out"):
        evaluate_held_out(problem, {"greedy": policy_named(problem, "greedy")}, load_data(path))
    code, output, _ = called("data", path)
    assert code == 0
    assert "Nothing is held out" in output
