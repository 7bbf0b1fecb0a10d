"""Bad input is refused with one sentence before anything is traced."""

import numpy as np
import pytest

import rampup
from rampup.exact.finite import FiniteLMDP

NAN = float("nan")

REFUSED = [
    ("bcp", {"n": 0}, "`n` must be a whole number of at least 1, got 0."),
    ("bcp", {"n": -1}, "`n` must be a whole number of at least 1, got -1."),
    ("bcp", {"n": 2.5}, "`n` must be a whole number of at least 1, got 2.5."),
    ("bcp", {"n": True}, "`n` must be a whole number of at least 1, got True."),
    ("bcp", {"n": 10**12}, "`n` must be at most"),
    ("bcp", {}, "`n` must be given"),
    ("bcp", {"series": [0.9, 0.5]}, "`series` must begin with P_1 = 1"),
    ("bcp", {"series": [1, 1.5]}, "`series` must hold numbers in [0, 1], got 1.5."),
    ("bcp", {"series": [1, -0.5]}, "`series` must hold numbers in [0, 1], got -0.5."),
    ("bcp", {"series": [1, NAN]}, "`series` must hold finite numbers only, got nan."),
    ("bcp", {"series": []}, "`series` must be a non-empty array with 1 axis, got shape (0,)."),
    ("bcp", {"series": [[1.0]]}, "`series` must be a non-empty array with 1 axis, got shape (1, 1)."),
    ("bcp", {"series": ["a"]}, "`series` must be an array of numbers"),
    ("bcp", {"series": [1, [2, 3]]}, "`series` must be an array of numbers"),
    ("bcp", {"series": None}, "`series` must be an array of numbers"),
    ("bcp", {"n": 3, "series": [1, 0.5]}, "`series` must have shape (3,), got (2,)."),
    ("bcp", {"n": 3, "series": "clasical"}, "unknown series 'clasical': did you mean 'classical'?"),
    ("bcp", {"n": 3, "series": "random"}, "the random series needs a seed, as in 'random:7'"),
    ("bcp", {"n": 3, "series": "classical:7"}, "the classical series takes no seed"),
    ("bcp", {"series": "missing.json"}, "cannot read the series file 'missing.json'"),
    ("bcp", {"n": 3, "B": 1}, "unknown parameter of problem 'bcp' 'B': known are n, series, data."),
    ("okd", {"n": 3, "B": -1, "V": 1}, "`B` must be a number of at least 0, got -1."),
    ("okd", {"n": 3, "B": NAN, "V": 1}, "`B` must be a number of at least 0, got nan."),
    ("okd", {"n": 3, "B": 1, "V": 0}, "`V` must be a positive number, got 0."),
    ("okd", {"n": 3, "B": 1, "V": float("inf")}, "`V` must be a positive number, got inf."),
    ("okd", {"n": 3, "B": 1, "V": 10**400}, "`V` must be a positive number, got 1000"),
    ("okd", {"n": 3, "B": "one", "V": 1}, "`B` must be a number of at least 0, got 'one'."),
    ("okd", {"n": 3, "V": 1}, "problem 'okd' needs the parameter `B`."),
    ("okd", {"n": 3, "B": 1, "V": 1, "sizes": "unifrom"}, "unknown distribution for `sizes` 'unifrom': did you mean"),
    ("okd", {"n": 3, "B": 1, "V": 1, "sizes": 5}, "`sizes` must be a distribution, its name, or"),
    ("okd", {"n": 3, "B": 1, "V": 1, "sizes": {"kind": "histogram"}}, "distribution 'histogram' needs the parameter"),
    ("okd", {"n": 3, "B": 1, "V": 1, "sizes": {"kind": "uniform", "top": 2}}, "unknown parameter of distribution"),
    ("adw", {"n": 0, "m": 3, "V": 1}, "`n` must be a whole number of at least 1, got 0."),
    ("adw", {"n": 3, "m": 0, "V": 1}, "`m` must be a whole number of at least 1, got 0."),
    ("adw", {"n": 3, "m": 3, "V": -1}, "`V` must be a positive number, got -1."),
    ("adw", {"n": 3, "m": 3, "V": 1, "bids": ["uniform"]}, "`bids` must be one distribution or a list of `n` = 3"),
    ("knapsack", {}, "unknown problem 'knapsack': known are bcp, okd, adw"),
]


@pytest.mark.parametrize(("name", "parameters", "sentence"), REFUSED, ids=[entry[2][:60] for entry in REFUSED])
def test_a_bad_problem_is_refused_with_a_sentence(name, parameters, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        rampup.make(name, **parameters)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


DISTRIBUTIONS = [
    (lambda: rampup.Histogram([0, 0]), "must not all be zero"),
    (lambda: rampup.Histogram([1, -1]), "must not be negative, got -1"),
    (lambda: rampup.Histogram([1, NAN]), "finite numbers only, got nan"),
    (lambda: rampup.Histogram([[1, 2]]), "got shape"),
    (lambda: rampup.Uniform(1.0, 1.0), "`high` must be above `low` = 1.0, got 1.0"),
    (lambda: rampup.Uniform(-1.0, 1.0), "`low` must be a number of at least 0"),
    (lambda: rampup.Bernoulli(1.5), "`prob` must be a number in"),
    (lambda: rampup.Bernoulli(0.5, 0.0), "`value` must be a positive number"),
    (lambda: rampup.Special(point=0.7), "`low` must be at least `point` = 0.7, got 0.6"),
    (lambda: rampup.Empirical([]), "non-empty"),
    (lambda: rampup.Empirical([-0.1]), "negative"),
    (lambda: rampup.random_histogram(seed=-1), "`seed` must be a whole number"),
    (lambda: rampup.random_histogram(gran=0), "`gran` must be a whole number"),
]


@pytest.mark.parametrize(("make", "sentence"), DISTRIBUTIONS, ids=[entry[1] for entry in DISTRIBUTIONS])
def test_a_bad_distribution_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        make()
    assert sentence in str(caught.value)


FEATURES = [
    ("monomials:3", "unknown features 'monomials': did you mean 'monomial'?"),
    ("monomial", "`features` monomial needs a degree of at least 1, as in 'monomial:3'"),
    ("legendre:0", "`features` legendre needs a degree of at least 1"),
    ("legendre:-2", "`features` legendre needs a degree of at least 1"),
    ("one_hot", "`features` one_hot takes no degree and needs the finitely many states of bcp"),
]


@pytest.mark.parametrize(("features", "sentence"), FEATURES)
def test_bad_features_are_refused_with_a_sentence(features, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        rampup.as_features(features, rampup.make("okd", n=3, B=1, V=1))
    assert str(caught.value).startswith(sentence)


def fair_lmdp():
    return {
        "weights": np.array([0.5, 0.5]),
        "initial": np.full((2, 3), 1 / 3),
        "transition": np.full((2, 3, 2, 3), 1 / 3),
        "reward": np.zeros((2, 3, 2)),
        "horizon": 2,
    }


LMDPS = [
    ({"horizon": 0}, "`horizon` must be a whole number of at least 1, got 0."),
    ({"weights": np.array([0.5, 0.6])}, "`weights` must sum to 1 along its last axis, got a sum of 1.1."),
    ({"weights": np.array([1.0])}, "`weights` must have shape (2,), got (1,)."),
    ({"reward": np.full((2, 3, 2), 1.5)}, "`reward` must hold numbers in [0, 1], got 1.5."),
    ({"reward": np.zeros((2, 3, 1))}, "`reward` must have shape (2, 3, 2), got (2, 3, 1)."),
    ({"transition": np.full((2, 3, 2, 3), 0.5)}, "`transition` must sum to 1 along its last axis"),
    ({"transition": np.full((2, 3, 2, 2), 0.5)}, "`transition` must have shape (2, 3, 2, 3), got (2, 3, 2, 2)."),
    ({"initial": np.full((2, 3), NAN)}, "`initial` must hold finite numbers only, got nan."),
    ({"is_live": np.ones(3)}, "`is_live` must be an array of true and false"),
    ({"is_live": np.array([True, True, False])}, "`is_live` marks an end state that pays a reward or can be left"),
]


@pytest.mark.parametrize(("change", "sentence"), LMDPS, ids=[entry[1][:50] for entry in LMDPS])
def test_a_bad_lmdp_is_refused_with_a_sentence(change, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        FiniteLMDP(**(fair_lmdp() | change))
    assert str(caught.value).startswith(sentence)


def test_a_fair_lmdp_is_taken():
    assert FiniteLMDP(**fair_lmdp()).num_states == 3
