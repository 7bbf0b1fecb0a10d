"""The random numbers behind the paper's instance distributions, as its authors drew them."""

import json
from functools import cache
from importlib import resources
from typing import Any

from rampup import arguments


@cache
def _numbers() -> dict[str, Any]:
    return json.loads(resources.files("rampup.problems").joinpath("paper_distributions.json").read_text())


def exponent_uniforms(seed: str, n: int) -> list[float]:
    """p_2..p_n of the random best choice experiment with this seed; the paper has n = 100 and its warm-up n = 10."""
    known = {name.removeprefix("bcp-"): sizes for name, sizes in _numbers().items() if name.startswith("bcp-")}
    sizes = known[arguments.known_name("series paper", seed, known)]
    if str(n) not in sizes:
        raise ValueError(f"the series 'paper:{seed}' is known for `n` = {' and '.join(sizes)} only, got {n}.")
    return sizes[str(n)]["exponent_uniforms"]


def histogram_weights(experiment: str, which: str) -> list[float]:
    """The weights of a histogram of an okd or adw experiment; `which` is size or value."""
    known = {name: entry for name, entry in _numbers().items() if not name.startswith("bcp-")}
    histograms = known[arguments.known_name("experiment of the paper", experiment, known)]
    names = [name.removesuffix("_histogram") for name in histograms]
    return histograms[f"{arguments.known_name(f'histogram of {experiment}', which, names)}_histogram"]
