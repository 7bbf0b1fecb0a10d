"""The paper's claims held against finished runs: what is claimed, what was measured, what is required."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import yaml

from rampup import stories
from rampup.advice import advise
from rampup.problems import make
from rampup.runs.folder import RunFolder

# A value is the mean of the last few rows: one lucky evaluation is no success.
_ROWS = 3
# Five standard errors of a small rate measured on 512 episodes: a lower one may be chance.
_LEAST_VALUE = 0.05
# "Far fewer" samples are at most this part of the other's; "far below" is a kappa lower by a factor of e^2.
_FEWER, _LOWER = 0.5, 2.0
# What one step may lose to many: a twentieth of what is possible in the classical problem.
_SLACK = 0.02
# Each size twice the one before. ln kappa must then grow by ln 2 an arrival within this part of it; and where kappa
# doubles, thresholds rounded to whole arrivals make it a little more at small sizes.
_SIZES = (20, 40, 80, 160, 320)
_NEAR, _DOUBLE = 0.02, 2.2
# Each curriculum with the schemes that do without, the one that differs in nothing else first.
_RIVALS = {"curl": ("direct", "naive_samp"), "fix_samp_curl": ("naive_samp", "direct")}


class Claim(NamedTuple):
    """A claim of the paper about one experiment, and what became of it."""

    experiment: str
    claim: str
    measured: str
    required: str
    holds: bool

    @property
    def verdict(self) -> str:
        return "PASS" if self.holds else "FAIL"

    def document(self) -> dict[str, Any]:
        """The claim with the names JSON has for it."""
        told = self._asdict()
        return told | {"pass": told.pop("holds")}


class Evidence(NamedTuple):
    """A finished run, as its folder tells it."""

    name: str
    config: dict[str, Any]
    records: list[dict[str, Any]]
    optimum: float | None
    against_best: dict[str, Any]
    """By scheme, ln kappa of its sampler for the best policy learned; empty where the optimal one is the reference."""

    @property
    def parameters(self) -> dict[str, Any]:
        return self.config["problem"]["parameters"]

    @property
    def series(self) -> Any:
        """The series of a best choice problem; nothing for the others."""
        return self.parameters.get("series", "classical") if self.config["problem"]["name"] == "bcp" else None

    @property
    def reference(self) -> float:
        """The value of the reference policy at the target size."""
        phases = [phase for scheme in self.config["schemes"] for phase in self.final_phases(scheme)]
        return float(np.mean([record["reference_value"] for phase in phases for record in phase]))

    def final_phases(self, scheme: str) -> list[list[dict[str, Any]]]:
        """The records of the last stage, of every seed."""
        own = [record for record in self.records if record["scheme"] == scheme]
        runs = [[one for one in own if one["seed"] == seed] for seed in dict.fromkeys(one["seed"] for one in own)]
        return [[one for one in run if one["stage"] == run[-1]["stage"]] for run in runs]

    def first_of(self, schemes: Iterable[str]) -> str | None:
        """The first of these schemes that was trained."""
        return next((scheme for scheme in schemes if scheme in self.config["schemes"]), None)


def evidence_of(folder: RunFolder) -> Evidence:
    """Read a finished run."""
    summary = folder.summary
    if summary is None:
        raise ValueError(f"the run in {str(folder.path)!r} is not finished: go on with `{folder.resume_command}`.")
    config = yaml.safe_load(folder.config)
    against_best = folder.theory()["against_best"]
    return Evidence(str(config["name"]), config, folder.rows(), summary["optimal_value"], against_best)


def claims_of(folder: RunFolder) -> list[Claim]:
    """All that the paper claims about an experiment, held against a finished run of it."""
    run = evidence_of(folder)
    return [claim for judge in CLAIMS for claim in judge(run)]


def fewer_samples(run: Evidence) -> Iterator[Claim]:
    """Each curriculum reaches half of the goal with far fewer samples than training without one.

    Of the schemes with entropy regularisation the paper shows no result and claims nothing.
    """
    for scheme in run.config["schemes"] if run.series != "adversarial" else []:
        rival = run.first_of(_RIVALS.get(scheme, ()))
        if rival is not None:
            yield _race(run, scheme, rival)


def _race(run: Evidence, scheme: str, rival: str) -> Claim:
    goal, name = _goal(run, scheme)
    said = f"{scheme} reaches half of {name} ({goal / 2:.4f}) with far fewer samples than {rival}"
    required = "at most half as many, those of the warm-up counted; or never in at least as many"
    if goal < _LEAST_VALUE:
        return Claim(run.name, said, f"{scheme} learns nothing", required, False)
    needed, others = (_samples_until(run, one, goal / 2) for one in (scheme, rival))
    measured = f"{needed:,.0f} samples ({_curve(run, scheme)[0][0]:,} of them the warm-up's) against "
    if math.isinf(others):
        given = int(_curve(run, rival)[0][-1])
        return Claim(run.name, said, f"{measured}never in {given:,}", required, needed <= given)
    return Claim(run.name, said, f"{measured}{others:,.0f}", required, needed <= _FEWER * others)


def _goal(run: Evidence, scheme: str) -> tuple[float, str]:
    """The reference; or the curriculum's best where that is better, or where half of the reference is out of reach.

    The paper's own reference for AdWords is a policy that a curriculum has trained: classical rules may do badly there.
    """
    best, reference = float(np.max(_curve(run, scheme)[1])), run.reference
    return (reference, "the reference") if reference / 2 <= best <= reference else (best, f"{scheme}'s own best")


def _samples_until(run: Evidence, scheme: str, level: float) -> float:
    """Samples, those of the warm-up counted, until the value on the large problem first reaches a level."""
    samples, values = _curve(run, scheme)
    reached = np.flatnonzero(values >= level)
    return float(samples[reached[0]]) if reached.size else math.inf


def _curve(run: Evidence, scheme: str) -> tuple[np.ndarray, np.ndarray]:
    """Samples and the median over seeds of the value in the final phase, which is equally long for all of them."""
    phases = run.final_phases(scheme)
    return np.array([one["samples"] for one in phases[0]]), np.median([_values(phase) for phase in phases], axis=0)


def _values(phase: list[dict[str, Any]]) -> list[float]:
    """At each row the mean of the last few."""
    values = [record["value"] for record in phase]
    return [float(np.mean(values[max(0, end - _ROWS) : end])) for end in range(1, len(values) + 1)]


def lower_kappa(run: Evidence) -> Iterator[Claim]:
    """Where the final phase begins, ln kappa of the curriculum is far below that of naive sampling."""
    own, naive = run.first_of(("fix_samp_curl", "curl")), run.first_of(("naive_samp", "direct"))
    if own is None or naive is None or run.series == "adversarial":
        return
    # At theta = 0 the policy is uniform: what `direct` samples on-policy in its first row is what `naive_samp` does.
    said = f"ln kappa at the start of the final phase is far lower for {own} than for {naive}"
    if run.against_best:
        said += f", the target being what {run.against_best[own]['target']} learned"
        yield _gap(run, said, *(float(run.against_best[one]["ln_kappa"]) for one in (own, naive)))
    else:
        yield _gap(run, said, _first_ln_kappa(run, own), _first_ln_kappa(run, naive))
    if run.series is not None:
        said = "exact ln kappa, one-hot features: far lower for the warm-up's optimal policy than for naive sampling"
        yield _gap(run, said, *_exact_ln_kappas(run))


def _gap(run: Evidence, said: str, own: float, naive: float) -> Claim:
    holds = math.isfinite(own) and own <= naive - _LOWER
    return Claim(run.name, said, f"{_text(own)} against {_text(naive)}", f"at least {_LOWER:g} lower", holds)


def _first_ln_kappa(run: Evidence, scheme: str) -> float:
    first = [phase[0]["ln_kappa"] for phase in run.final_phases(scheme)]
    return float(np.median([math.inf if one is None else one for one in first]))


def _exact_ln_kappas(run: Evidence) -> tuple[float, float]:
    """ln kappa at theta = 0 of the small problem's optimal policy and of naive sampling (Theorem 2)."""
    small = make("bcp", **(run.parameters | run.config["warmup"]["parameters"]))
    answer = advise(make("bcp", **run.parameters), warmups=[({"n": small.horizon}, small)])
    naive, curriculum = (one["ln_kappa"] for one in answer["candidates"])
    return curriculum, naive


def growth(run: Evidence) -> Iterator[Claim]:
    """In the classical problem kappa of naive sampling is exponential in n, and that of the curriculum linear."""
    if run.series != "classical" or run.first_of(_RIVALS) is None or run.first_of(("naive_samp", "direct")) is None:
        return
    warmup = (run.parameters | run.config["warmup"]["parameters"])["n"]
    rows = stories.bcp_growth(_SIZES, warmup, "one_hot")["rows"]
    # The worst sampler that the paper's bound is for.
    worst = [stories.bcp_theory(n, "classical", f"1/{n}", "one_hot") for n in _SIZES]
    sizes = f"(exact, n = {_SIZES[0]} to {_SIZES[-1]})"
    yield _exponential(run, sizes, [row["ln_kappa_naive"] for row in rows])
    for sampler, own in (("the warm-up's optimal policy", rows), ("the policy that lets one arrival pass", worst)):
        yield _linear(run, f"kappa of {sampler} is at most linear in n {sizes}", [row["ln_kappa_curl"] for row in own])


def _exponential(run: Evidence, sizes: str, ln_kappas: list[float]) -> Claim:
    pairs = zip(pairwise(ln_kappas), pairwise(_SIZES), strict=True)
    slopes = [(after - before) / (large - small) for (before, after), (small, large) in pairs]
    holds = all(abs(slope / math.log(2) - 1) <= _NEAR for slope in slopes)
    measured = f"ln kappa grows by {min(slopes):.4f} to {max(slopes):.4f} an arrival"
    required = f"by ln 2 = {math.log(2):.4f}, within {_NEAR:.0%}"
    return Claim(run.name, f"kappa of naive sampling is exponential in n {sizes}", measured, required, holds)


def _linear(run: Evidence, said: str, ln_kappas: list[float]) -> Claim:
    if not all(map(math.isfinite, ln_kappas)):
        return Claim(run.name, said, "infinite", f"at most {_DOUBLE} times at twice the n", False)
    most = max(math.exp(after - before) for before, after in pairwise(ln_kappas))
    return Claim(run.name, said, f"{most:.2f} times", f"at most {_DOUBLE} times at twice the n", most <= _DOUBLE)


def one_step_suffices(run: Evidence) -> Iterator[Claim]:
    """With as many samples, one curriculum step does as well as growing the problem in many."""
    if not {"curl", "multi_step"} <= set(run.config["schemes"]):
        return
    budget = min(phase[-1]["samples"] for name in ("curl", "multi_step") for phase in run.final_phases(name))
    own, many = (_value_at(run, name, budget) for name in ("curl", "multi_step"))
    said = f"one curriculum step does as well as many: curl against multi_step after {budget:,} samples"
    required = f"at most {_SLACK} below, and at least half of the reference ({run.reference / 2:.4f})"
    # Not a number where one of them is still on a smaller problem by then, and then nothing is shown.
    holds = own >= many - _SLACK and own >= run.reference / 2
    yield Claim(run.name, said, f"{own:.4f} against {many:.4f}", required, holds)


def _value_at(run: Evidence, scheme: str, samples: int) -> float:
    """The median over seeds of the value on the large problem with so many samples."""
    found = []
    for phase in run.final_phases(scheme):
        kept = [record for record in phase if record["samples"] <= samples]
        found.append(_values(kept)[-1] if kept else math.nan)
    return float(np.median(found))


def failure(run: Evidence) -> Iterator[Claim]:
    """On the adversarial series the curriculum fails, and kappa says so."""
    if run.series != "adversarial" or run.optimum is None or run.first_of(_RIVALS) is None:
        return
    for scheme in (name for name in _RIVALS if name in run.config["schemes"]):
        best = float(np.max(_curve(run, scheme)[1]))
        required = f"at most half of the optimum ({run.optimum / 2:.4f})"
        said = f"the adversarial series makes {scheme} fail"
        yield Claim(run.name, said, f"{best:.4f} at best", required, best <= run.optimum / 2)
    own, naive = _exact_ln_kappas(run)
    said = "exact ln kappa, one-hot features: larger for the warm-up's optimal policy than for naive sampling"
    yield Claim(run.name, said, f"{_text(own)} against {_text(naive)}", "larger", own > naive)


def _text(ln_kappa: float) -> str:
    return "infinite" if math.isinf(ln_kappa) else f"{ln_kappa:z.2f}"


CLAIMS: tuple[Callable[[Evidence], Iterable[Claim]], ...] = (
    fewer_samples,
    lower_kappa,
    growth,
    one_step_suffices,
    failure,
)
"""One function for each claim of the paper; what it has nothing to say about, it passes over."""
