"""Rampup: policies for irrevocable online decisions, learned by natural policy gradient and small warm-ups.

Names are loaded when first used, so that `rampup --help` and `import gymnasium` stay quick.
"""

import importlib

from rampup import gymnasium_plugin as gymnasium_plugin

__version__ = "0.1.0"

_HOMES = {
    "ADW": "rampup.problems.adw",
    "ADWValue": "rampup.problems.adw_value",
    "BCP": "rampup.problems.bcp",
    "Choice": "rampup.problems.choice",
    "OKD": "rampup.problems.okd",
    "OKDValue": "rampup.problems.okd_value",
    "Distribution": "rampup.problems.distributions",
    "Bernoulli": "rampup.problems.distributions",
    "Empirical": "rampup.problems.distributions",
    "Histogram": "rampup.problems.distributions",
    "Special": "rampup.problems.distributions",
    "Uniform": "rampup.problems.distributions",
    "random_histogram": "rampup.problems.distributions",
    "Problem": "rampup.problems.base",
    "PROBLEMS": "rampup.problems",
    "make": "rampup.problems",
    "check_problem": "rampup.checks",
    "Features": "rampup.features",
    "OneHot": "rampup.features",
    "Polynomial": "rampup.features",
    "as_features": "rampup.features",
    "user_features": "rampup.features",
    "Effort": "rampup.learn.inspection",
    "NonFiniteError": "rampup.learn.trainer",
    "Progress": "rampup.learn.trainer",
    "Run": "rampup.learn.trainer",
    "RunResult": "rampup.learn.trainer",
    "SCHEMES": "rampup.learn.curriculum",
    "Settings": "rampup.learn.trainer",
    "Stage": "rampup.learn.curriculum",
    "multi_step": "rampup.learn.curriculum",
    "scheme": "rampup.learn.curriculum",
    "train": "rampup.learn.trainer",
    "bounded_run": "rampup.learn.bound",
    "advise": "rampup.advice",
    "evaluate": "rampup.evaluation",
    "evaluate_held_out": "rampup.held_out",
    "load_data": "rampup.data.sequences",
    "data_card": "rampup.data.card",
    "hindsight": "rampup.references.hindsight",
    "hindsight_values": "rampup.references.hindsight",
    "policy_named": "rampup.references.named",
    "LogLinear": "rampup.policy",
    "read_policy": "rampup.runs.policy_file",
    "write_policy": "rampup.runs.policy_file",
    "Episode": "rampup.episodes",
    "play": "rampup.episodes",
}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'rampup' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__():
    return ["__version__", "gymnasium_plugin", *_HOMES]
