"""A tiny experiment, and run folders written by hand through the real writer: rows as wanted, nothing trained."""

import math

import yaml

from rampup.runs.folder import RunFolder

OKD = {"name": "okd", "parameters": {"n": 40, "B": 4, "V": 9.5}}
REFERENCE = 0.4
TINY = {
    "name": "tiny",
    "problem": {"name": "bcp", "parameters": {"n": 12}},
    "warmup": {"parameters": {"n": 4}},
    "features": "monomial:3",
    "schemes": ["direct", "curl"],
    "seeds": 2,
    "trainer": {
        "iterations": 20,
        "warmup_iterations": 10,
        "learning_rate": 0.1,
        "num_lanes": 20,
        "record_every": 10,
    },
}


def phase(values, *, start=0, each=100, stage=0, ln_kappa=5.0, seed=0):
    """Rows of one stage of one run: a value every `each` samples."""
    return [
        {
            "seed": seed,
            "stage": stage,
            "iteration": index,
            "samples": start + each * index,
            "value": value,
            "ln_kappa": None if math.isinf(ln_kappa) else ln_kappa + index,
        }
        for index, value in enumerate(values)
    ]


def after_warmup(values, *, start=1000, ln_kappa=1.0, **settings):
    """A warm-up, in which the value is high and kappa is not the one asked for, and then the final phase."""
    first = phase([0.9, 0.9], stage=0, each=start, ln_kappa=77.0, seed=settings.get("seed", 0))
    return first + phase(values, start=start, stage=1, ln_kappa=ln_kappa, **settings)


def write_run(path, runs, *, problem=OKD, warmup=None, name="tiny", optimum=None, is_finished=True):
    """A run folder with these rows by scheme; nothing is trained."""
    document = {"name": name, "about": "A tiny run.", "problem": problem, "warmup": {"parameters": warmup or {"n": 10}}}
    text = yaml.safe_dump(document | {"schemes": list(runs), "seeds": [0]}, allow_unicode=True)
    made = {"started": "2026-01-01", "device": {"kind": "toaster"}, "versions": {"jax": "9.9"}, "git_commit": "c" * 40}
    folder = RunFolder.create(path, text, made)
    with folder.recording(0) as recording:
        for scheme, rows in runs.items():
            for row in rows:
                recording.append({"scheme": scheme, "reference_value": REFERENCE, "avg_err": 0.1, **row})
    if is_finished:
        folder.write_summary(summary_of(name, problem, runs, optimum))
    return folder


def summary_of(name, problem, runs, optimum):
    schemes = [
        {
            "scheme": scheme,
            "value": rows[-1]["value"],
            "interval": [rows[-1]["value"] - 0.01, rows[-1]["value"] + 0.01],
            "ln_kappa": rows[-1]["ln_kappa"],
            "samples": rows[-1]["samples"],
            "seeds": len({row["seed"] for row in rows}),
        }
        for scheme, rows in runs.items()
    ]
    told = {"experiment": name, "problem": problem["name"], "reference": "bang_per_buck", "seconds": 1.5}
    return told | {"reference_value": REFERENCE, "optimal_value": optimum, "schemes": schemes}
