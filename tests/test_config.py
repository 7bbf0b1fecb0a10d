"""Experiments as YAML: the shipped ones are the paper's, any leaf can be set, and nonsense is refused by one line."""

import copy
import json
import math
import time

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from rampup import config
from rampup.conductor import plan

SCHEMES = ["direct", "naive_samp", "curl", "fix_samp_curl"]
THOUSAND = 1000

# Section 6 of the specification: warm-up, target, final-phase iterations of the four schemes in thousands.
PAPER = {
    "bcp-classical": ({"n": 10}, {"n": 100}, (130, 30, 10, 10)),
    "bcp-2018011309": ({"n": 10}, {"n": 100}, (30, 30, 10, 10)),
    "bcp-20000308": ({"n": 10}, {"n": 100}, (30, 30, 10, 10)),
    "bcp-19283746": ({"n": 10}, {"n": 100}, (30, 30, 10, 10)),
    "okd-uniform": ({"n": 10, "B": 1, "V": 2}, {"n": 100, "B": 10, "V": 25}, (50, 50, 20, 10)),
    "okd-2018011309": ({"n": 10, "B": 1.5, "V": 2.5}, {"n": 100, "B": 15, "V": 30}, (50, 50, 20, 20)),
    "okd-20000308": ({"n": 10, "B": 1, "V": 3}, {"n": 100, "B": 8, "V": 25}, (50, 50, 20, 20)),
    "adw-19260817": ({"n": 3, "m": 6, "V": 2.7}, {"n": 10, "m": 20, "V": 9}, (10, 10, 10, 10)),
    "adw-special": ({"n": 3, "m": 6, "V": 2.64}, {"n": 8, "m": 32, "V": 7.04}, (10, 10, 10, 10)),
}


def sizes_of(problem):
    """The numbers of a problem by the paper's letters."""
    kind = type(problem).__name__
    if kind == "BCP":
        return {"n": problem.horizon}
    if kind == "OKD":
        return {"n": problem.horizon, "B": float(problem.budget), "V": float(problem.target)}
    return {"n": problem.num_actions - 1, "m": problem.horizon, "V": float(problem.target)}


def test_the_shipped_experiments_are_those_of_the_paper_and_two_more():
    assert set(config.shipped_names()) == set(PAPER) | {"bcp-multistep", "bcp-adversarial"}


@pytest.mark.parametrize("name", PAPER)
def test_an_experiment_of_the_paper_has_its_numbers(name):
    warmup, target, thousands = PAPER[name]
    chosen = plan(config.load(name))
    assert chosen.settings.learning_rate == (0.2 if name.startswith("bcp") else 0.1)
    assert (chosen.settings.num_lanes, chosen.settings.radius, chosen.settings.clip) == (100, 10.0, 15.0)
    assert chosen.features.size == {"bcp": 2 * 10, "okd": 3**5, "adw": 3**4}[name[:3]]
    stages_of = {run.name: run.stages for run in chosen.runs}
    assert set(stages_of) == set(SCHEMES) | {f"{scheme}_reg" for scheme in SCHEMES}
    for scheme, length in zip(SCHEMES, thousands, strict=True):
        for weight, stages in ((0.0, stages_of[scheme]), (0.01, stages_of[f"{scheme}_reg"])):
            assert sizes_of(stages[-1].problem) == target
            assert stages[-1].iterations == length * THOUSAND
            assert all(stage.regularisation == weight for stage in stages)
            assert len(stages) == 1 + scheme.endswith("curl")
            if len(stages) == 2:
                assert sizes_of(stages[0].problem) == warmup
                assert stages[0].iterations == 10 * THOUSAND


def test_the_distributions_are_those_of_the_paper():
    for name in ("okd-2018011309", "okd-20000308"):
        problem = plan(config.load(name)).problem
        assert problem.size_distribution.cumulative.shape == problem.value_distribution.cumulative.shape == (11,)
        assert (problem.size_distribution.cumulative != problem.value_distribution.cumulative).any()
    assert plan(config.load("okd-uniform")).problem.size_distribution.support() == (0.0, 1.0)
    assert plan(config.load("adw-19260817")).problem.bid_distributions.cumulative.shape == (11,)
    special = plan(config.load("adw-special")).problem.bid_distributions
    assert [float(number) for number in (special.prob, special.point, special.low, special.high)] == [0.9, 0.4, 0.6, 1]
    classical = plan(config.load("bcp-classical")).problem.record_probs
    assert [1 / probability for probability in classical.tolist()] == pytest.approx(list(range(1, 101)))
    random = [plan(config.load(name)).problem.record_probs.tolist() for name in PAPER if name.startswith("bcp-")]
    assert len({tuple(series) for series in random}) == 4


def test_multi_step_grows_to_the_problem_itself_and_the_adversarial_series_is_adversarial():
    chosen = plan(config.load("bcp-multistep"))
    steps = next(run.stages for run in chosen.runs if run.name == "multi_step")
    assert [stage.problem.horizon for stage in steps] == [10, 20, 40, 70, 100]
    assert [stage.promote_at for stage in steps] == [0.9] * 4 + [None]
    assert steps[-1].problem is chosen.problem
    series = plan(config.load("bcp-adversarial")).problem.record_probs.tolist()
    assert series[-1] > 0.5
    assert min(series[:-1]) > 0.99


@pytest.mark.parametrize("preset", ["paper", "quick"])
@pytest.mark.parametrize("name", config.shipped_names())
def test_every_preset_is_a_plan_whose_shown_config_is_the_config(name, preset):
    experiment = config.load(name, preset=preset)
    chosen = plan(experiment)
    assert len(chosen.runs) == len(experiment.schemes) * len(experiment.seeds)
    assert config.parsed(config.as_yaml(experiment), "shown") == experiment


def test_the_quick_preset_is_smaller_everywhere():
    def work(name, preset):
        chosen = plan(config.load(name, preset=preset))
        steps = sum(stage.iterations * stage.problem.horizon**2 for run in chosen.runs for stage in run.stages)
        return steps * chosen.settings.num_lanes

    for name in config.shipped_names():
        assert work(name, "quick") < work(name, "paper") / 10


def at(experiment, path):
    value = experiment.model_dump()
    for key in path.split("."):
        value = value[key]
    return value


OVERRIDES = [
    ("name=mine", "name", "mine"),
    ("trainer.iterations=500", "trainer.iterations", 500),
    ("trainer.iterations.curl=7", "trainer.iterations.curl", 7),
    ("trainer.learning_rate=1e-3", "trainer.learning_rate", 1e-3),
    ("trainer.learning_rate=1", "trainer.learning_rate", 1.0),
    ("trainer.regularisation=0", "trainer.regularisation", 0.0),
    ("trainer.effort.episodes=64", "trainer.effort.episodes", 64),
    ("trainer.effort={groups: 3}", "trainer.effort.groups", 3),
    ("trainer.solver=ridge_project", "trainer.solver", "ridge_project"),
    ("seeds=3", "seeds", [0, 1, 2]),
    ("seeds=[5, 8]", "seeds", [5, 8]),
    ('schemes=["curl", "direct"]', "schemes", ["curl", "direct"]),
    ("problem.parameters.n=50", "problem.parameters.n", 50),
    ("problem.parameters={n: 3, series: [1, 0.5, 2e-1]}", "problem.parameters.series", [1, 0.5, 0.2]),
    ("warmup.parameters.n=5", "warmup.parameters.n", 5),
    ("warmup=null", "warmup", None),
    ("multi_step.sizes=[{n: 100}]", "multi_step.sizes", [{"n": 100}]),
    ("multi_step={sizes: [{n: 5}, {n: 100}], promote_at: 0.5}", "multi_step.promote_at", 0.5),
    ("reference=threshold:3", "reference", "threshold:3"),
    ("about=a = b", "about", "a = b"),
    ('about="1e5"', "about", "1e5"),
]


@pytest.mark.parametrize(("override", "path", "value"), OVERRIDES, ids=[entry[0] for entry in OVERRIDES])
def test_any_leaf_can_be_set(override, path, value):
    experiment = config.load("bcp-classical", overrides=[override])
    assert at(experiment, path) == value
    assert config.parsed(config.as_yaml(experiment), "shown") == experiment


def test_overrides_apply_in_order_and_leave_the_rest_alone():
    plain = config.load("bcp-classical")
    assert config.load("bcp-classical", overrides=["trainer.iterations=3", "trainer.iterations=4"]).trainer == (
        plain.trainer.model_copy(update={"iterations": 4})
    )
    assert config.load("bcp-classical") == plain
    assert config.load("bcp-classical", preset="quick", overrides=["seeds=1"]).iterations_of("curl") == 250


def test_a_number_with_an_exponent_is_a_number_in_a_file_too(tmp_path):
    path = tmp_path / "mine.yaml"
    text = config.as_yaml(config.load("okd-uniform"))
    path.write_text(text.replace("learning_rate: 0.1", "learning_rate: 1e-1").replace("V: 25", "V: 2.5e1"))
    assert config.load(str(path)) == config.load("okd-uniform")


REFUSED = [
    ("nmae=x", "unknown key `nmae`: did you mean 'name'?"),
    ("triner.clip=3", "unknown key `triner`: did you mean 'trainer'?"),
    ("trainer.iteration=3", "unknown key `trainer.iteration`: did you mean 'iterations'?"),
    ("trainer.effort.group=3", "unknown key `trainer.effort.group`: did you mean 'groups'?"),
    ("warmup.parameter.n=3", "unknown key `warmup.parameter`: did you mean 'parameters'?"),
    ("multi_step.promote=1", "unknown key `multi_step.promote`: did you mean 'promote_at'?"),
    ("problem.parameters.N=3", "unknown parameter of problem 'bcp' 'N': "),
    ("problem.parameters.serie=3", "unknown parameter of problem 'bcp' 'serie': did you mean 'series'?"),
    ("trainer.iterations.crul=3", "unknown scheme in `trainer.iterations` 'crul': did you mean 'curl'?"),
    ('schemes=["crul"]', "trainer.iterations has no entry for the scheme 'crul'"),
    ("trainer.num_lanes=many", "`trainer.num_lanes`: input should be a valid integer, got 'many'."),
    ("trainer.num_lanes=2.5", "`trainer.num_lanes`: input should be a valid integer, got 2.5."),
    ("trainer.num_lanes=true", "`trainer.num_lanes`: input should be a valid integer, got True."),
    ("trainer.num_lanes=0", "`trainer.num_lanes`: input should be greater than or equal to 1, got 0."),
    ("trainer.learning_rate=true", "`trainer.learning_rate`: input should be a valid number, got True."),
    ("trainer.learning_rate=.nan", "`trainer.learning_rate`: input should be a finite number, got nan."),
    ("trainer.learning_rate=-1e-3", "`trainer.learning_rate`: input should be greater than 0, got -0.001."),
    ("trainer.iterations=0", "`trainer.iterations`: input should be greater than or equal to 1, got 0."),
    ("trainer.iterations.curl=1.5", "`trainer.iterations.curl`: input should be a valid integer, got 1.5."),
    ("trainer.iterations=[3]", "`trainer.iterations`: input should be a valid integer, got [3]."),
    ("trainer.estimator=exactly", "`trainer.estimator`: input should be 'algorithm4', 'paired' or 'exact'"),
    ("trainer=3", "`trainer`: input should be a valid dictionary"),
    ("problem.name=tsp", "`problem.name`: unknown problem 'tsp': known are bcp, okd, adw"),
    ("problem.parameters.n=null", "`n` must be given with the series 'classical'."),
    ("problem.parameters.n=ten", "`n` must be a whole number of at least 1, got 'ten'."),
    ("problem.parameters.n=1000000", "`n` must be at most 10000."),
    ("problem.parameters.series=random:99999999999999999999", "`seed of the series` must be at most 4294967295"),
    ("seeds=0", "`seeds`: must be between 1 and 10000, got 0."),
    ("seeds=-1", "`seeds`: must be between 1 and 10000, got -1."),
    ("seeds=[1, 1]", "schemes and seeds must not repeat."),
    ("seeds=[-1]", "`seed` must be a whole number of at least 0, got -1."),
    ("seeds=x", "`seeds`: input should be a valid list, got 'x'."),
    ("name=", "`name`: input should be a valid string, got None."),
    ('name=""', "`name`: string should have at least 1 character"),
    ("features=monomial:0", "`features` monomial needs a degree of at least 1"),
    ("features=monomial:20000", "`features` 'monomial:20000' are more than 20000 numbers."),
    ("features=one_hot", "`features` one_hot is a table for n = 100"),
    ("reference=greedy", "'greedy' is a policy of okd, adw, okd_value and adw_value, not of bcp"),
    ("reference=optimum", "unknown policy of bcp 'optimum': did you mean 'optimal'?"),
    ("reference=threshold", "the policy 'threshold' needs a number"),
    ("reference=threshold:20", "`threshold` must be at most 10, got 20."),
    ("reference=absent.json", "cannot read the policy file 'absent.json'"),
    ("warmup=null", "a curriculum needs a small problem to warm up on: give `warmup`."),
    ("multi_step.sizes=[]", "`multi_step.sizes`: list should have at least 1 item"),
    ("multi_step.sizes=[{n: 5}]", "the last of `multi_step.sizes` must be the size of the problem itself."),
    ("schemes.0=curl", "`--set schemes.0`: 'schemes' holds a value, not further keys."),
    ("trainer.clip.deep=1", "`--set trainer.clip.deep`: 'clip' holds a value, not further keys."),
    ("trainer.clip", "`--set` takes key=value with dots for keys inside keys, got 'trainer.clip'."),
    ("=3", "`--set` takes key=value with dots for keys inside keys, got '=3'."),
    ("a..b=3", "`--set` takes key=value with dots for keys inside keys, got 'a..b=3'."),
    ("about=[", "the value of `--set` is not YAML"),
    ("about=2020-01-01", "the value of `--set`: a date has no place in it"),
    ("about=!!int x", "the value of `--set` is not YAML"),
    ("about=!!bool x", "the value of `--set` is not YAML"),
    ("about=!!int ''", "the value of `--set` is not YAML"),
    ("about=!!timestamp x", "the value of `--set` is not YAML"),
    ("about=!!python/object:os.system {}", "the value of `--set` is not YAML"),
    (f"about={'[' * 100_000}", "the value of `--set` is not YAML: it cannot be read."),
    (f"about={'[' * 50}{']' * 50}", "the value of `--set`: it is nested more than 20 deep."),
    ("about=&a [*a]", "the value of `--set`: it is nested more than 20 deep."),
    ("about={1: 2}", "the value of `--set`: the names in a mapping must be texts, got 1."),
    ('"a\\nb"=1', "unknown key `"),
    ("a\nb=1", "unknown key `a b`: "),
]


def refusal(load):
    """The one line with which a config is refused."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (the caller looks at the sentence)
        load()
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message.removeprefix("bcp-classical: ")


@pytest.mark.parametrize(("override", "sentence"), REFUSED, ids=[entry[0][:40] for entry in REFUSED])
def test_a_mistake_is_refused_by_its_name(override, sentence):
    assert refusal(lambda: plan(config.load("bcp-classical", overrides=[override]))).startswith(sentence)


def test_more_runs_than_fit_in_memory_are_refused():
    overrides = ["features=monomial:10000", "seeds=100"]
    sentence = "`schemes` times `seeds` times features must be at most 10000000."
    assert refusal(lambda: plan(config.load("bcp-classical", overrides=overrides))) == sentence


def test_aliases_that_stand_for_millions_of_values_are_refused_at_once():
    laughs = ["&a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    laughs += [f"&a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    begun = time.monotonic()
    assert "holds more than 100000 values" in refusal(lambda: config.parsed(f"[{', '.join(laughs)}]", "laughs"))
    assert time.monotonic() - begun < 2


def test_unknown_experiments_and_presets_name_the_known_ones(tmp_path):
    assert "did you mean 'bcp-classical'?" in refusal(lambda: config.load("bcp-clasical"))
    assert "unknown preset 'quik': known are paper, quick." in refusal(
        lambda: config.load("okd-uniform", preset="quik")
    )
    assert "cannot read the experiment file" in refusal(lambda: config.load(str(tmp_path / "absent.yaml")))
    assert "cannot read the experiment file" in refusal(lambda: config.load(f"{tmp_path}/"))
    path = tmp_path / "mine.yaml"
    for text, sentence in [
        (b"\xff\xfe\x00", "is not UTF-8 text."),
        (b"", "must hold a mapping of names to values."),
        (b"- 1", "must hold a mapping of names to values."),
        (b"a: [", "is not YAML (line 1)"),
        (b"presets: 3", "`presets` must hold a mapping"),
        (b"name: x", "`problem` is missing."),
    ]:
        path.write_bytes(text)
        assert sentence in refusal(lambda: config.load(str(path)))
    path.write_text("presets: {small: 3}")
    assert "`presets.small` must hold a mapping" in refusal(lambda: config.load(str(path), preset="small"))


TINY = {
    "bcp": {
        "name": "tiny",
        "about": "",
        "problem": {"name": "bcp", "parameters": {"n": 8, "series": "random:3"}},
        "warmup": {"parameters": {"n": 4}},
        "multi_step": {"sizes": [{"n": 4}, {"n": 8}], "promote_at": 0.9},
        "reference": "threshold:2",
        "features": "monomial:3",
        "schemes": ["direct", "curl_reg", "multi_step"],
        "seeds": [0, 7],
    },
    "okd": {
        "name": "tiny",
        "problem": {
            "name": "okd",
            "parameters": {"n": 8, "B": 1.5, "V": 2, "sizes": {"kind": "random_histogram", "seed": 1, "gran": 4}},
        },
        "warmup": {"parameters": {"n": 4, "V": 1, "values": {"kind": "uniform", "low": 0.1, "high": 0.9}}},
        "reference": "bang_per_buck:1.5",
        "features": "legendre:2",
        "schemes": ["naive_samp", "fix_samp_curl"],
        "seeds": 2,
    },
    "adw": {
        "name": "tiny",
        "problem": {"name": "adw", "parameters": {"n": 2, "m": 8, "V": 1.5, "bids": ["special", "bernoulli"]}},
        "warmup": {"parameters": {"m": 4, "V": 1.2, "bids": {"kind": "empirical", "sample": [0.5, 0.7]}}},
        "features": "monomial:2",
        "schemes": ["direct", "curl"],
        "seeds": 1,
    },
}
for tiny in TINY.values():
    tiny["trainer"] = {
        "iterations": {"direct": 3, "naive_samp": 3, "curl": 3, "fix_samp_curl": 3, "multi_step": 3},
        "warmup_iterations": 3,
        "learning_rate": 0.1,
        "num_lanes": 5,
        "radius": 10.0,
        "clip": 15.0,
        "regularisation": 0.01,
        "estimator": "algorithm4",
        "solver": "ball",
        "record_every": 5,
        "effort": {"episodes": 64, "groups": 2, "replicates": 2},
    }


def test_the_configs_to_be_spoiled_are_good():
    for document in TINY.values():
        plan(config.checked(document, "tiny"))


def test_a_warm_up_of_no_given_length_is_as_long_as_what_follows():
    document = copy.deepcopy(TINY["adw"])
    document["trainer"].pop("warmup_iterations")
    document["trainer"]["iterations"]["curl"] = 7
    _, curl = plan(config.checked(document, "tiny")).runs
    assert [stage.iterations for stage in curl.stages] == [7, 7]


def places(value):
    """Every container with every key in it, from the top down."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from places(value[key])


NUMBERS = [0, -1, 2**31, 2**32, 2**63, 2**64, 10**30, 10**400, 1e308, 1e-320, -0.0, math.nan, math.inf, -math.inf]
TEXTS = [
    "",
    " ",
    "\n",
    "0",
    "1e999",
    "\x00",
    "\ud800",
    "nan",
    "../x",
    "/",
    "a.json",
    "a:b",
    "monomial:999999999",
    "ü\r",
]
NAMED = ["random:", "random:99999999999999999999", "paper:1", "one_hot", "bang_per_buck:-1", "threshold:1/0", "."]
NESTED = [[], {}, [[]], [{}], {"": ""}, {"kind": None}, {"kind": "histogram", "weights": []}, True, False, None]
HUGE = [{"kind": "random_histogram", "gran": 10**9}, {"kind": "random_histogram", "seed": 2**70}]
WRONG = [{"kind": "uniform", "low": 1, "high": 1}, {"kind": "empirical", "sample": [[1]]}]
STRANGE = st.sampled_from([*NUMBERS, *TEXTS, *NAMED, *NESTED, *HUGE, *WRONG])
VALUES = st.one_of(
    STRANGE,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=6,
    ),
).map(copy.deepcopy)
NAMES = st.one_of(
    st.text(max_size=6), st.sampled_from(["n", "N", "kind", "presets", "trainer", "a\nb", "<one>", "seed", "B"])
)


@st.composite
def spoiled(draw):
    document = copy.deepcopy(TINY[draw(st.sampled_from(sorted(TINY)))])
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        found = list(places(document))
        if not found:
            break
        container, key = draw(st.sampled_from(found))
        match draw(st.sampled_from(["replace", "replace", "replace", "delete", "rename", "add"])):
            case "replace":
                container[key] = draw(VALUES)
            case "delete":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(NAMES)] = container.pop(key)
            case "add" if isinstance(container, dict):
                container[draw(NAMES)] = draw(VALUES)
            case _:
                container.append(draw(VALUES))
    return document


def planned_or_refused(make):
    """Whether a config gives a plan; if not, it is refused with one line, and in either case soon."""
    begun, refused = time.monotonic(), None
    try:
        experiment = make()
        plan(experiment)
    except ValueError as error:
        refused = error
    else:
        assert config.parsed(config.as_yaml(experiment), "again") == experiment
    if refused is not None:
        # Not of a kind of its own, such as what a failed encoding raises.
        assert type(refused) is ValueError
        assert len(str(refused).splitlines()) == 1, str(refused)
    assert time.monotonic() - begun < 5
    return refused is None


MANY = settings(max_examples=2000, suppress_health_check=list(HealthCheck))


@MANY
@given(spoiled())
def test_a_spoiled_config_is_a_plan_or_one_sentence(document):
    planned_or_refused(lambda: config.checked(document, "spoiled"))


MARKS = [
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "\n",
    "  ",
    "\t",
    "'",
    '"',
    "|\n",
    ">\n",
    "&a ",
    "*a",
    "#",
    "=",
    "~",
    "0x",
    "1:2",
]
LINES = [
    "name: x\n",
    "a: &a [*a]\n",
    "<<: *a\n",
    "? [a]\n",
    "--- \n",
    "...\n",
    "%YAML 9.9\n",
    "presets:\n",
    "trainer:\n",
]
TAGS = ["!!set {a, b}\n", "!!binary aaaa\n", "!!float x", "!!int ''", "!!python/name:os.x\n", "2001-99-99"]
FRAGMENTS = st.sampled_from([*MARKS, *LINES, *TAGS, "problem: {name: bcp}\n"])


@MANY
@given(st.one_of(st.binary(max_size=60), st.lists(FRAGMENTS, max_size=10).map(lambda parts: "".join(parts).encode())))
def test_any_bytes_are_a_plan_or_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    assert not planned_or_refused(lambda: config.load(str(path)))


@settings(max_examples=300)
@given(st.text(min_size=1, max_size=30), st.text(max_size=30))
def test_any_name_survives_being_written(name, about):
    document = TINY["bcp"] | {"name": name, "about": about}
    experiment = config.checked(document, "named")
    assert config.parsed(config.as_yaml(experiment), "again") == experiment


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "bcp-clasical"], "unknown experiment 'bcp-clasical': did you mean 'bcp-classical'?"),
        (["show", "bcp-classical", "--set", "trainer.lanes=3"], "bcp-classical: unknown key `trainer.lanes`: "),
        (["show", "bcp-classical", "--preset", "tiny"], "bcp-classical: unknown preset 'tiny'"),
        (["run", "bcp-classical", "--seeds", "0"], "bcp-classical: `seeds`: must be between 1 and 10000, got 0."),
        (["run", "bcp-classical", "--scheme", "crul"], "bcp-classical: trainer.iterations has no entry for the scheme"),
        (["run", "absent.yaml"], "cannot read the experiment file 'absent.yaml'"),
        (["run", "okd-uniform", "--set", "reference=optimal"], "'optimal' is a policy of bcp and choice, not of okd"),
        (["resume", "absent"], "'absent' is not the folder of a run: it has no config.yaml."),
    ],
)
def test_through_the_command_line_a_mistake_is_one_line_and_exit_code_2(
    called, tmp_path, monkeypatch, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    code, output, complaint = called(*arguments)
    assert (code, output) == (2, "")
    assert len(complaint.splitlines()) == 1
    assert complaint.startswith(f"rampup: {sentence}")
    assert list(tmp_path.iterdir()) == []


def test_what_is_shown_can_be_run_again(called, tmp_path):
    overrides = ["--preset", "quick", "--set", "trainer.iterations=7", "--set", "seeds=3", "--set", "name='<b>: ü #'"]
    code, output, complaint = called("show", "okd-20000308", *overrides)
    assert (code, complaint) == (0, "")
    experiment = config.load("okd-20000308", preset="quick", overrides=overrides[3::2])
    assert config.parsed(output, "shown") == experiment
    assert config.checked(yaml.safe_load(output), "by another reader") == experiment
    path = tmp_path / "mine.yaml"
    path.write_text(output)
    assert called("show", path) == (0, output, "")


def test_experiments_are_listed(called):
    code, output, complaint = called("experiments", "--json")
    assert (code, complaint) == (0, "")
    assert [entry["name"] for entry in json.loads(output)] == config.shipped_names()
    code, output, _ = called("experiments")
    assert all(name in output for name in config.shipped_names())
