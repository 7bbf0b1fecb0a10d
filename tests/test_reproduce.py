"""The command that holds the paper's claims against runs, and the page it writes; only tiny runs are trained."""

import json
import re
import shutil
import signal

import pytest
import yaml
from hand_made import after_warmup, phase, write_run

from rampup import conductor, config
from rampup.claims import Claim, claims_of
from rampup.conductor import begin, conduct
from rampup.report.results import write_results
from rampup.runs.folder import RunFolder

TINY = {
    "name": "tiny",
    "about": "Best choice in seconds.",
    "problem": {"name": "bcp", "parameters": {"n": 8, "series": [1, 0.5, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1]}},
    "warmup": {"parameters": {"n": 4, "series": [1, 0.5, 0.4, 0.3]}},
    "features": "monomial:3",
    "schemes": ["direct", "curl"],
    "seeds": 1,
    "trainer": {"learning_rate": 0.2, "num_lanes": 5, "warmup_iterations": 6, "iterations": 6, "record_every": 2},
}


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with one finished run of the tiny experiment."""
    place = tmp_path_factory.mktemp("reproduce")
    experiment = config.checked(TINY, "tiny")
    assert conduct(begin(experiment, place / "tiny")) is not None
    return place


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a run was trained that should not be")

    monkeypatch.setattr(conductor, "conduct", refuse)


def reproduced(called, *arguments):
    """Exit code and claims of a call that ends well or with a failing claim."""
    code, output, complaint = called("reproduce", *arguments, "--preset", "paper", "--json")
    assert complaint == ""
    document = json.loads(output)
    assert set(document) == {"claims"}
    return code, document["claims"]


def test_a_finished_run_is_used_as_it_is(called, tiny, place, no_training):
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    code, found = reproduced(called, tiny, "--out", place)
    assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == before
    assert found == [claim.document() for claim in claims_of(RunFolder.open(place / "tiny"))]
    assert len(found) == 3
    assert {*found[0]} == {"experiment", "claim", "measured", "required", "pass"}
    # With a warm-up of a few updates nothing is learned faster: the claims can fail.
    assert code == 1
    assert not all(claim["pass"] for claim in found)


def test_people_get_one_line_a_claim(called, tiny, place, no_training, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    code, output, complaint = called("reproduce", tiny, "--preset", "paper", "--out", place)
    assert (code, complaint) == (1, "")
    *lines, last = output.splitlines()
    found = claims_of(RunFolder.open(place / "tiny"))
    for line, claim in zip(lines, found, strict=True):
        assert line.startswith("PASS  tiny: " if claim.holds else "FAIL  tiny: ")
        for words in (claim.claim, f"measured {claim.measured}", f"required {claim.required}"):
            assert words in line
    failed = sum(not claim.holds for claim in found)
    assert last == f"{failed} of 3 claims of the paper fail; the runs are in {place}."


def test_what_is_not_there_is_trained_and_what_was_interrupted_goes_on(called, tiny, tmp_path, trained):
    # Another experiment beside it, the same in all but its name, is not taken for it.
    place = tmp_path / "runs"
    begin(config.checked(TINY | {"name": "another"}, "another"), place / "another")
    begin(config.checked(TINY, "tiny"), place / "begun")
    _, found = reproduced(called, tiny, "--out", place)
    assert sorted(entry.name for entry in place.iterdir()) == ["another", "begun"]
    assert (place / "begun" / "report.html").is_file()
    assert RunFolder.open(place / "another").summary is None
    assert found == [claim.document() for claim in claims_of(RunFolder.open(trained / "tiny"))]
    shutil.rmtree(place / "begun")
    assert reproduced(called, tiny, "--out", place)[1] == found
    (new,) = [entry for entry in place.iterdir() if entry.name != "another"]
    assert re.fullmatch(r"tiny-\d{8}-\d{6}", new.name)


def test_ctrl_c_saves_and_the_same_command_goes_on(called, tiny, tmp_path, monkeypatch):
    place, real = tmp_path / "runs", conductor.conduct

    def interrupted(folder, **settings):
        signal.raise_signal(signal.SIGINT)
        return real(folder, **settings)

    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(conductor, "conduct", interrupted)
        code, output, complaint = called("reproduce", tiny, "--preset", "paper", "--out", place)
    assert (code, output) == (130, "")
    assert complaint.splitlines()[-1] == (
        f"rampup: saved; go on with `rampup reproduce {tiny} --preset paper --out {place}`"
    )
    assert signal.getsignal(signal.SIGINT) is before
    (folder,) = place.iterdir()
    assert RunFolder.open(folder).last_checkpoint() is not None
    assert len(reproduced(called, tiny, "--out", place)[1]) == 3
    assert list(place.iterdir()) == [folder]


def test_all_experiments_are_run_in_order(called, monkeypatch, tmp_path):
    """The table of claims, without training: every experiment is given a run that was made by hand."""

    def made(experiment, path):
        rows = {scheme: phase([0.0] * 60, ln_kappa=9.0) for scheme in experiment.schemes}
        rows |= {scheme: after_warmup([0.3] * 9) for scheme in rows if scheme not in ("direct", "naive_samp")}
        problem, warmup = experiment.problem.model_dump(), experiment.warmup.parameters
        return write_run(path, rows, problem=problem, warmup=warmup, name=experiment.name, optimum=0.4)

    monkeypatch.setattr(conductor, "begin", made)
    monkeypatch.chdir(tmp_path)
    code, output, complaint = called("reproduce", "--json")
    assert complaint == ""
    found = json.loads(output)["claims"]
    assert list(dict.fromkeys(claim["experiment"] for claim in found)) == config.shipped_names()
    assert len(list((tmp_path / "runs" / "reproduce-quick").iterdir())) == len(config.shipped_names())
    # By hand the curriculum is good everywhere, where the adversarial series should make it fail.
    failed = {claim["experiment"] for claim in found if not claim["pass"]}
    assert (code, failed) == (1, {"bcp-adversarial"})
    assert sum("exponential in n" in claim["claim"] for claim in found) == 1
    assert [claim["experiment"] for claim in found if "multi_step" in claim["claim"]] == ["bcp-multistep"]


def test_claims_that_all_hold_are_exit_code_zero(called, tmp_path, monkeypatch):
    rows = {"direct": phase([0.0] * 60, ln_kappa=9.0), "curl": after_warmup([0.3] * 9)}
    monkeypatch.setattr(conductor, "begin", lambda experiment, path: write_run(path, rows, name=experiment.name))
    code, output, complaint = called("reproduce", "okd-uniform", "--out", tmp_path)
    assert (code, complaint) == (0, "")
    assert [line.split()[0] for line in output.splitlines()] == ["PASS", "PASS", "All"]


def test_an_experiment_without_claims_says_so(called, tmp_path, monkeypatch):
    rows = {"direct": phase([0.0] * 6)}
    monkeypatch.setattr(conductor, "begin", lambda experiment, path: write_run(path, rows, name=experiment.name))
    code, output, _ = called("reproduce", "okd-uniform", "--out", tmp_path)
    assert code == 0
    assert output == f"No claim of the paper is about this experiment; the runs are in {tmp_path}.\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bcp-clasical"], "unknown experiment 'bcp-clasical': did you mean 'bcp-classical'?"),
        (["okd-uniform", "--preset", "quik"], "okd-uniform: unknown preset 'quik': known are paper, quick."),
        (["okd-uniform", "--write", "results.html"], "the page of results must end in .md, got 'results.html'."),
        (["--presett", "quick"], "No such option: --presett"),
    ],
)
def test_mistakes_are_one_sentence(called, no_training, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, output, complaint = called("reproduce", *arguments)
    assert (code, output, len(complaint.splitlines())) == (2, "", 1)
    assert sentence in complaint
    assert list(tmp_path.iterdir()) == []


def test_help_has_examples(called):
    code, output, _ = called("reproduce", "--help")
    assert code == 0
    assert "rampup reproduce all --preset paper --out runs/paper --write docs/results.md" in " ".join(output.split())


def results_of(folders, path):
    found = [claim for folder in folders for claim in claims_of(folder)]
    write_results(folders, found, str(path))
    return path.read_text(encoding="utf-8")


def linked(text):
    return re.findall(r"^!\[.*(?<!\\)\]\(([^)]+)\)$", text, flags=re.MULTILINE)


def test_the_page_tells_claims_schemes_and_origin(called, tiny, place, tmp_path, no_training):
    page = tmp_path / "docs" / "results.md"
    code, output, _ = called("reproduce", tiny, "--preset", "paper", "--out", place, "--write", page)
    assert code == 1
    assert output.endswith(f"; the runs are in {place}, the page is {page}.\n")
    text, folder = page.read_text(), RunFolder.open(place / "tiny")
    for claim in claims_of(folder):
        assert f"| tiny | {claim.claim} | {claim.measured} | {claim.required} | {claim.verdict} |" in text
    for one in folder.summary["schemes"]:
        assert f"| {one['scheme']} | {one['value']:.4f} | {one['interval'][0]:.4f} to " in text
    assert f"jax {folder.provenance['versions']['jax']}" in text
    assert folder.provenance["started"] in text
    assert folder.provenance["device"]["kind"] in text
    assert linked(text) == ["results/tiny.png"]
    assert (page.parent / "results" / "tiny.png").read_bytes().startswith(b"\x89PNG")
    assert not list(page.parent.rglob("*.part"))


def test_strange_names_stay_words_and_stay_inside(tmp_path):
    rows = {"direct": phase([0.0] * 60), "curl": after_warmup([0.3] * 4)}
    names = ["../../x | <script>", "a\n# b `c` *d* _e_ [f](g)", "...", "same", "same"]
    folders = [write_run(tmp_path / str(index), rows, name=name) for index, name in enumerate(names)]
    text = results_of(folders, tmp_path / "docs" / "my results.md")
    assert "<script>" not in text
    assert text.count("\n# ") == 0
    assert "## a \\# b \\`c\\` \\*d\\* \\_e\\_ \\[f\\](g)\n" in text
    pictures = sorted(entry.name for entry in (tmp_path / "docs" / "my results").iterdir())
    assert sorted(linked(text)) == [f"my%20results/{name}" for name in pictures]
    assert len(set(pictures)) == len(names)
    assert sorted(entry.name for entry in (tmp_path / "docs").iterdir()) == ["my results", "my results.md"]
    for line in text.splitlines():
        if line.startswith("| ../"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 6


def test_a_failing_claim_is_on_the_page_too(tmp_path):
    folder = write_run(tmp_path / "run", {"curl": after_warmup([0.3] * 4)})
    claim = Claim("tiny", "something", "1", "2", False)
    write_results([folder], [claim, claim._replace(holds=True)], str(tmp_path / "page.md"))
    text = (tmp_path / "page.md").read_text()
    assert "1 of 2 claims of the paper hold." in text
    assert "| tiny | something | 1 | 2 | FAIL |" in text
