"""The example problems: right rules, true hindsight, policies that learn to beat the rules, and every command."""

import itertools
import json
import shutil
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rampup
from rampup.evaluation import instance_keys, outcomes
from rampup.examples.bin_packing import BinPacking
from rampup.examples.load_balancing import LoadBalancing
from rampup.examples.prophet import Prophet, half_of_the_prophet
from rampup.examples.set_cover import FAMILIES, FAMILY, SHARES, SetCover
from rampup.features import as_features
from rampup.gym import ProblemEnv
from rampup.learn.curriculum import Stage
from rampup.learn.trainer import Run, Settings, train
from rampup.policy import LogLinear
from rampup.problems import own
from rampup.references import policy_named
from rampup.references.hindsight import hindsight
from rampup.references.named import rules_of

EXAMPLES = Path(rampup.__file__).parent / "examples"
KINDS = Prophet, LoadBalancing, SetCover, BinPacking
FILES = {kind: f"{kind.__module__.rpartition('.')[2]}.py:{kind.__name__}" for kind in KINDS}
IS_EXACT = {Prophet: True, LoadBalancing: False, SetCover: True, BinPacking: False}
TINY = {Prophet: {"n": 6}, LoadBalancing: {"n": 6, "m": 2}, SetCover: {"n": 6}, BinPacking: {"n": 6, "k": 3}}
every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def named(kind):
    return f"{EXAMPLES / FILES[kind]}"


@every
def test_examples_keep_the_contract_at_every_size(kind):
    rampup.check_problem(kind())
    rampup.check_problem(kind(n=1))
    with pytest.raises(ValueError, match="`n` must be a whole number of at least 1, got 0"):
        kind(n=0)


def test_an_example_is_announced_by_the_package():
    assert "prophet" in own.announced_names()


def chosen_by(problem, rule, observation):
    log_probs = policy_named(problem, rule)(jnp.asarray(observation, float))
    np.testing.assert_allclose(np.exp(log_probs), np.arange(problem.num_actions) == np.argmax(log_probs))
    return int(np.argmax(log_probs))


def test_the_prophets_rule_takes_from_half_of_what_the_best_prize_is_worth():
    problem = Prophet(5)
    drawn = np.asarray(jax.vmap(problem.draw)(jax.random.split(jax.random.key(0), 20_000))).max(axis=1)
    half = float(half_of_the_prophet(problem))
    assert abs(half - drawn.mean() / 2) < 4 * drawn.std() / 2 / np.sqrt(len(drawn))
    assert chosen_by(problem, "half_of_the_prophet", [0.4, half + 1e-6]) == 1
    assert chosen_by(problem, "half_of_the_prophet", [0.4, half - 1e-6]) == 0


def test_list_scheduling_takes_the_machine_that_is_done_first():
    problem = LoadBalancing(10, 3)
    seen = [0.3, *(0.9, 0.2, 0.5), *(0.0, 1.0, 0.6)]
    assert chosen_by(problem, "list_scheduling", seen) == 0
    assert chosen_by(problem, "fastest", seen) == 1


def test_the_rule_of_set_cover_takes_the_least_cost_for_new_elements():
    seen = [0.3, *(0.4, 0.1, 0.08), *(0.5, 0.1, 0.05)]
    assert chosen_by(SetCover(10), "cost_effective", seen) == 0
    assert chosen_by(SetCover(10), "cheapest", seen) == 2


def test_the_rules_of_bin_packing_take_the_fullest_and_the_first_bin_with_room():
    problem = BinPacking(10, k=3)
    assert chosen_by(problem, "best_fit", [0.3, 0.4, *(0.3, 0.6, 0.7)]) == 1
    assert chosen_by(problem, "first_fit", [0.3, 0.4, *(0.3, 0.6, 0.7)]) == 0
    assert chosen_by(problem, "first_fit", [0.3, 0.4, *(0.7, 0.6, 0.3)]) == 1
    # Where it fits nowhere, the fullest is closed, or the first.
    assert chosen_by(problem, "best_fit", [0.3, 0.5, *(0.6, 0.9, 0.7)]) == 1
    assert chosen_by(problem, "first_fit", [0.3, 0.5, *(0.6, 0.9, 0.7)]) == 0


@pytest.mark.parametrize("seed", range(4))
def test_what_a_set_adds_is_counted_element_by_element(seed):
    problem = SetCover(8)
    instance = problem.draw(jax.random.key(seed))
    assert np.array_equal(np.asarray(instance.is_in).sum(axis=1), np.full(8, 3))
    # The first set of the family of four and the first two of the family of eight are bought, and nothing else.
    is_bought = np.isin(np.arange(len(SHARES)), [2, 6, 7])
    state = problem.init(instance)._replace(is_bought=jnp.asarray(is_bought))
    is_in = np.asarray(instance.is_in[0])
    # All kinds of elements there are: a set of each family.
    kinds = np.array(list(itertools.product(*map(range, FAMILIES))))
    holds = np.concatenate([kinds[:, [k]] == np.arange(size) for k, size in enumerate(FAMILIES)], axis=1)
    is_new = ~(holds & is_bought).any(axis=1)
    is_covered = (is_in & is_bought).any()
    wanted = [0.0 if is_covered else (holds[:, is_in & (k == FAMILY)][:, 0] & is_new).mean() for k in range(3)]
    np.testing.assert_allclose(problem.observe(instance, state)[4:], wanted, atol=1e-12)


def test_an_element_that_is_covered_costs_nothing():
    problem = SetCover(4)
    instance = problem.draw(jax.random.key(0))
    state = problem.init(instance)._replace(is_bought=instance.is_in[0])
    later, *_ = problem.step(instance, state, jnp.asarray(1))
    assert float(later.paid) == 0.0
    assert np.array_equal(later.is_bought, state.is_bought)
    assert not problem.observe(instance, state)[1:].any()
    later, *_ = problem.step(instance, problem.init(instance), jnp.asarray(1))
    (bought,) = np.flatnonzero(later.is_bought)
    assert FAMILY[bought] == 1
    assert float(later.paid) == float(instance.costs[bought])


@pytest.mark.slow
@every
def test_nobody_earns_more_than_hindsight_and_returns_are_parts_of_one(kind):
    problem, count = kind(), 200
    draw = lambda key: problem.draw(jax.random.split(key)[0])
    ceiling = hindsight(problem, jax.jit(jax.vmap(draw))(instance_keys(0, count)))
    policies = {name: policy_named(problem, name) for name in rules_of(kind)}
    for name, played in outcomes(problem, policies, episodes=count).items():
        assert np.all(played.successes <= ceiling + 1e-9), name
        assert np.all((played.successes >= 0) & (played.successes <= 1)), name
    assert np.all(ceiling <= 1)


@every
def test_hindsight_is_no_less_than_the_best_of_all_ways_to_play(kind):
    problem = kind(**TINY[kind])
    sequences = jnp.asarray(list(itertools.product(range(problem.num_actions), repeat=problem.horizon)))

    def earned(instance, actions):
        def step(carry, action):
            state, is_alive = carry
            state, reward, goes_on = problem.step(instance, state, action)
            return (state, is_alive & goes_on), jnp.where(is_alive, reward, 0.0)

        return jnp.sum(jax.lax.scan(step, (problem.init(instance), jnp.asarray(True)), actions)[1])

    best_of = jax.jit(lambda instance: jnp.max(jax.vmap(lambda one: earned(instance, one))(sequences)))
    instances = jax.vmap(problem.draw)(jax.random.split(jax.random.key(3), 20))
    bests = [float(best_of(jax.tree.map(lambda leaf, i=i: leaf[i], instances))) for i in range(20)]
    ceiling = hindsight(problem, instances)
    if IS_EXACT[kind]:
        np.testing.assert_allclose(ceiling, bests, atol=1e-9)
    else:
        assert np.all(ceiling >= np.array(bests) - 1e-9)
        # A bound that says nothing would be one, too.
        assert np.mean(ceiling - bests) < 0.1


LEARNING = {Prophet: 60, LoadBalancing: 40, SetCover: 40, BinPacking: 60}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in (Prophet, LoadBalancing) else pytest.mark.long, id=kind.__name__)
        for kind in KINDS
    ],
)
def test_a_learned_policy_beats_the_rule(kind):
    problem = kind()
    features = as_features(kind.usual_features, problem)
    settings = Settings(learning_rate=kind.usual_learning_rate, estimator="paired", record_every=1000)
    (result,) = train([Run("direct", (Stage(problem, LEARNING[kind]),))], features, settings)
    rule = next(iter(kind.rules))
    policies = {"learned": LogLinear(problem, features, jnp.asarray(result.theta)), rule: policy_named(problem, rule)}
    played = outcomes(problem, policies, episodes=20_000, seed=7)
    paired = played["learned"].successes - played[rule].successes
    assert paired.mean() > 4 * paired.std() / np.sqrt(len(paired))


@every
def test_gymnasium_plays_an_example_by_its_file(kind):
    parameters = TINY[kind]
    check_env(gymnasium.make("rampup/Problem-v0", problem=named(kind), **parameters).unwrapped)
    env = ProblemEnv(named(kind), **parameters)
    env.reset(seed=0)
    earned, is_over, steps = 0.0, False, 0
    while not is_over:
        _, reward, is_over, _, _ = env.step(0)
        earned, steps = earned + reward, steps + 1
    assert steps <= env.problem.horizon
    assert 0 <= earned <= 1


def test_gymnasium_needs_to_be_told_which_problem():
    with pytest.raises(ValueError, match=r"`problem` must be given: a problem, its name, or FILE\.py:CLASS\."):
        gymnasium.make("rampup/Problem-v0")


TINY_RUN = ["--set", "trainer.iterations=4", "--set", "trainer.record_every=2", "--set", "trainer.num_lanes=8"]
TINY_RUN += ["--set", "trainer.warmup_iterations=2", "--set", "trainer.effort.episodes=64", "--seeds", 1]


@pytest.mark.slow
def test_a_file_is_run_reported_resumed_and_evaluated(called, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "prophet.py", "mine.py")
    run = ["run", "--problem", "mine.py:Prophet", "--set", "problem.parameters.n=10", "--out", "out", *TINY_RUN]
    schemes = ["--scheme", "direct", "--scheme", "curl"]
    code, printed, complaint = called(*run, *schemes)
    assert code == 0, complaint
    summary = json.loads(Path("out/summary.json").read_text())
    assert [one["scheme"] for one in summary["schemes"]] == ["direct", "curl"]
    assert (summary["reference"], summary["optimal_value"]) == ("half_of_the_prophet", None)
    low, high = summary["hindsight"]["interval"]
    assert summary["reference_value"] < low < summary["hindsight"]["value"] < high
    assert summary["hindsight"]["instances"] == 400
    assert f"an all-seeing player {summary['hindsight']['value']:.4f}" in " ".join(printed.split())
    page = Path("out/report.html").read_text()
    assert 'data-level="hindsight"' in page
    assert '<th scope="col">value</th>' in page
    assert "success rate" not in page
    evaluate = ["evaluate", "--problem", "mine.py:Prophet", "--set", "n=10", "--episodes", 200]
    policies = ["--policy", "half_of_the_prophet", "--policy", "out/policies/curl-0.json", "--hindsight", 20]
    code, printed, complaint = called(*evaluate, *policies)
    assert code == 0, complaint
    assert printed.split()[:2] == ["policy", "value"]
    assert "success" not in printed
    assert "An all-seeing player earns" in printed
    # A run that is under way goes on with the file that it was begun with, and with no other.
    Path("out/summary.json").unlink()
    Path("mine.py").write_text(Path("mine.py").read_text() + "# changed\n")
    code, _, complaint = called("resume", "out")
    assert code == 2
    assert "'mine.py' is not what it was when the run in 'out' was begun" in " ".join(complaint.split())


BAD_STEP = """    def step(self, instance, state, action):
        return {}["nothing"]
"""
GENEROUS_STEP = """    def step(self, instance, state, action):
        return state + 1, jnp.asarray(2.0), state + 1 < self.horizon
"""


def prophet_with(step):
    text = (EXAMPLES / "prophet.py").read_text()
    first, rest = text.split("    def step(")
    return first + step + "\n    def bounds(" + rest.split("    def bounds(", 1)[1]


BAD_FILES = {
    "missing": (None, "Prophet", "cannot read the problem file 'missing.py': there is no such file."),
    "syntax": ("import rampup\n\nclass Prophet(:\n", "Prophet", "SyntaxError: invalid syntax (line 3)."),
    "another": ((EXAMPLES / "prophet.py").read_text(), "Profet", "has no problem 'Profet': it has Prophet."),
    "stranger": ("class Prophet:\n    pass\n", "Prophet", "it has no class of `rampup.Problem`."),
    "lacking": ("import rampup\n\nclass Prophet(rampup.Problem):\n    pass\n", "Prophet", "lacks `bounds`, `degrees`,"),
    "generous": (prophet_with(GENEROUS_STEP), "Prophet", "`step` must return rewards in [0, 1], got 2.0."),
    "crashing": (prophet_with(BAD_STEP), "Prophet", "Prophet fails with KeyError: 'nothing' (line "),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_in_one_sentence(called, tmp_path, monkeypatch, name):
    text, kind, sentence = BAD_FILES[name]
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path(f"{name}.py").write_text(text)
    code, _, complaint = called("run", "--problem", f"{name}.py:{kind}", "--out", "out")
    assert code == 2
    assert sentence in " ".join(complaint.split())
    assert not Path("out").exists()
