"""Closed forms and bounds of the paper, in plain NumPy: functions of numbers, independent of the exact recursions."""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from rampup import arguments


def threshold_count(n: int, threshold: float | str) -> int:
    """Return floor(n q), how many arrivals the q-threshold policy lets pass.

    Args:
        threshold: q in [0, 1], taken as the number its decimal digits say: 0.29 of 100 is 29, not 28.
    """
    text = str(threshold)
    try:
        # A number with an exponent may have more digits than there is memory.
        exact = Fraction(float(text)) if "e" in text.lower() else Fraction(text)
    except (ValueError, OverflowError, ZeroDivisionError):
        exact = Fraction(-1)
    if not 0 <= exact <= 1:
        raise ValueError(f"the threshold q must be a number in [0, 1], got {threshold!r}.")
    return math.floor(n * exact)


def odds_threshold(record_probs: np.ndarray) -> int:
    """Return floor(n p), how many arrivals the optimal policy lets pass, by the sum of odds (section 5.2).

    A record at i is worth accepting when the odds P_j / (1 - P_j) of all later ones sum to at most 1.
    """
    with np.errstate(divide="ignore"):
        odds = record_probs / (1 - record_probs)
    later = np.concatenate([np.cumsum(odds[::-1])[::-1][1:], [0.0]])
    waits = np.flatnonzero(later > 1)
    return int(waits[-1]) + 1 if waits.size else 0


def ln_k_curl(record_probs: np.ndarray, optimal_count: int, sampler_count: int) -> float:
    """ln k_curl = sum of -ln(1 - P_j) over floor(nq) < j <= floor(np); 0 where q > p (Theorem 2)."""
    with np.errstate(divide="ignore"):
        return float(np.sum(-np.log1p(-record_probs[sampler_count:optimal_count])))


def ln_k_naive(record_probs: np.ndarray, optimal_count: int) -> float:
    """ln k_naive = floor(np) ln 2 + the largest partial sum of ln 2 (1 - P_j) from floor(np) + 1 on (Theorem 2)."""
    with np.errstate(divide="ignore"):
        partial_sums = np.cumsum(np.log(2) + np.log1p(-record_probs[optimal_count:-1]))
    return optimal_count * math.log(2) + max(0.0, float(np.max(partial_sums, initial=0.0)))


def entropy_clip_bound(num_actions: int, clip: float) -> float:
    """|A| / e^(U+1): how much entropy the clip U can hide (clip lemma, for U >= ln |A| - 1)."""
    if clip < math.log(num_actions) - 1:
        raise ValueError(f"`clip` must be at least ln {num_actions} - 1 for the lemma to hold, got {clip}.")
    return num_actions * math.exp(-clip - 1)


class PerformanceBound(NamedTuple):
    """Both lines of Theorem 1 with their terms: min_t V* - V^t <= `first_line` <= `second_line`."""

    initial: float
    """What is left of Phi(pi_0)."""
    smoothness: float
    """eta B^2 G^2 / 2."""
    fitting: float
    """The weighted average of err_t."""
    transfer: float
    """sqrt(H eps_bias)."""
    statistical: float
    """sqrt(H kappa eps_stat)."""

    @property
    def first_line(self) -> float:
        return self.initial + self.smoothness + self.fitting

    @property
    def second_line(self) -> float:
        return self.initial + self.smoothness + self.transfer + self.statistical

    @property
    def dominant(self) -> str:
        """The largest term of the second line."""
        terms = {name: getattr(self, name) for name in ("initial", "smoothness", "transfer", "statistical")}
        return max(terms, key=lambda name: terms[name])


def performance_bound(
    *,
    fitting_errors: np.ndarray,
    excess_risks: np.ndarray,
    transfer_errors: np.ndarray,
    ln_kappas: np.ndarray,
    initial_potential: float,
    horizon: int,
    learning_rate: float,
    regularisation: float,
    feature_norm: float,
    radius: float,
) -> PerformanceBound:
    """Theorem 1 for the updates t = 0..T of one run, plain (lambda = 0) or regularised.

    Args:
        feature_norm: B, a bound on |phi(s, a)|.
    """
    rate = learning_rate * regularisation
    if not 0 <= rate < 1:
        raise ValueError(f"`learning_rate` times `regularisation` must be in [0, 1), got {rate}.")
    num_updates = len(fitting_errors)
    weights = (1 - rate) ** np.arange(num_updates - 1, -1, -1.0)
    # The initial term is (1 - rate)^(T+1) Phi_0 / (eta sum of weights), which at lambda = 0 is Phi_0 / (eta (T + 1)):
    # the paper prints T there, and sums T + 1 errors over T.
    return PerformanceBound(
        initial=(1 - rate) ** num_updates * initial_potential / (learning_rate * weights.sum()),
        smoothness=learning_rate * feature_norm**2 * radius**2 / 2,
        fitting=float(weights @ fitting_errors / weights.sum()),
        transfer=math.sqrt(horizon * np.max(transfer_errors)),
        statistical=_statistical_term(horizon, float(np.max(ln_kappas)), float(np.max(excess_risks))),
    )


def _statistical_term(horizon: int, ln_kappa: float, excess_risk: float) -> float:
    if excess_risk == 0:
        return 0.0
    ln_term = (math.log(horizon) + ln_kappa + math.log(excess_risk)) / 2
    return math.exp(ln_term) if ln_term < math.log(np.finfo(float).max) else math.inf


class SampleSize(NamedTuple):
    """How many lanes N an update needs for an excess risk, by the concentration lemma and by its repaired form."""

    lemma: int
    """As printed: for each update one fixed direction concentrates."""
    uniform: int
    """For all directions in the ball at once, which the proof needs: the direction taken depends on the samples."""


def sample_size(
    *,
    excess_risk: float,
    failure_prob: float,
    updates: int,
    horizon: int,
    num_actions: int,
    dimension: int,
    feature_norm: float,
    radius: float,
    regularisation: float = 0.0,
    clip: float = 15.0,
    is_fixed: bool = False,
) -> SampleSize:
    """N for which all updates have L(g_t) - L(g*_t) <= `excess_risk` with probability 1 - `failure_prob`.

    Args:
        is_fixed: whether a fixed sampler rolls in, for which the lemma has lambda = 0 only.
    """
    # Below this the squares of what is asked for leave the range of doubles.
    arguments.real("excess_risk", excess_risk, rule="a number of at least 1e-100", low=1e-100)
    arguments.real("failure_prob", failure_prob, rule="between 0 and 1", low=math.ulp(0.0), high=1 - 2**-53)
    for name, count in (("updates", updates), ("horizon", horizon), ("dimension", dimension)):
        arguments.integer(name, count, least=1)
    arguments.integer("num_actions", num_actions, least=2)
    for name, number in (("feature_norm", feature_norm), ("radius", radius)):
        arguments.positive(name, number)
    arguments.at_least_zero("regularisation", regularisation)
    if is_fixed and regularisation > 0:
        raise ValueError("with a fixed sampler the lemma holds for `regularisation` 0 only.")
    reward = float(horizon) if is_fixed else 1 + regularisation * clip
    if not is_fixed:
        reward += horizon * (1 + regularisation * math.log(num_actions))
    reach = radius * feature_norm
    width = 16 * horizon * reach * reward + 4 * horizon * reach**2
    # The clipped entropy is a little low at each of the H steps; the paper's last line drops the H.
    hidden = entropy_clip_bound(num_actions, clip) if regularisation > 0 else 0.0
    precision = (excess_risk - 8 * regularisation * horizon * reach * hidden) / 2
    if precision <= 0:
        raise ValueError(f"`clip` = {clip} hides more entropy than `excess_risk` = {excess_risk} allows: raise it.")
    confidence = math.log(2 * updates / failure_prob)
    # A net of the ball: between its points the loss moves by half the precision at most.
    steepness = 8 * horizon * feature_norm * (reach + reward)
    net = dimension * math.log1p(8 * radius * steepness / precision)
    return SampleSize(
        lemma=math.ceil(width**2 * confidence / (2 * precision**2)),
        uniform=math.ceil(2 * width**2 * (confidence + net) / precision**2),
    )
