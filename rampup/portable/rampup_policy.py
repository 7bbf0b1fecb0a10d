"""A learned policy in use: reads a file that `rampup export` wrote and answers arrivals one by one.

Needs Python 3.9 and NumPy, nothing of Rampup: copy this file wherever the policy is to decide.

    episode = load("policy.json").begin()
    answer = episode.decide({"record": True})  # {"number": 1, "decision": "reject", "probability": 1.0, ...}
"""

import hashlib
import json
import math

import numpy as np

FORMAT, VERSION = "rampup-policy", 1


class ArrivalError(ValueError):
    """An arrival that cannot be answered; the episode is as it was."""


def load(path):
    """Read an exported policy; a file that was changed, cut short or made by a newer version is refused."""
    document = read(path)
    if "rules" not in document:
        raise ValueError(f"the policy file {str(path)!r} was not exported: make one with `rampup export`.")
    return Policy(document)


def read(path):
    """The document of a policy file, if it is one, whole, unchanged, and of a version we know."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise ValueError(f"cannot read the policy file {str(path)!r}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{str(path)!r} is not a policy file, or was cut short: it holds no whole JSON.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} is not a policy file of Rampup.")
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(
            f"the policy file {str(path)!r} has version {version!r}, this Rampup reads up to {VERSION}: upgrade Rampup."
        )
    given = document.pop("sha256", None)
    if given != checksum(document):
        raise ValueError(f"the policy file {str(path)!r} was changed after it was written: its checksum does not fit.")
    missing = {"problem", "parameters", "features", "theta", "provenance"} - set(document)
    if missing:
        raise ValueError(f"the policy file {str(path)!r} lacks {', '.join(sorted(missing))}.")
    return document


def checksum(document):
    """SHA-256 of a document in one canonical spelling; a number that is not finite has none."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class Policy:
    """pi_theta(a|s) ~ exp(theta . phi(s, a)), and the rules of the problem it is for."""

    def __init__(self, document):
        self.document, self.rules = document, document["rules"]
        self.problem = PROBLEMS[document["problem"]](self.rules)
        self.theta = np.array(document["theta"], dtype=float)
        self._dot = _dot_of(document["features"], self.problem.num_degrees, self.rules["horizon"])

    def probabilities(self, variables):
        """The probability of every action, given the rows of variables of a state."""
        logits = [self._dot(self.theta, row) for row in variables]
        if len(logits) == 1:
            # Accept or reject: reject's logit is zero.
            logits = [0.0, *logits]
        shifted = np.exp(np.array(logits) - max(logits))
        return shifted / shifted.sum()

    def begin(self):
        return Episode(self)


class Episode:
    """One stream of arrivals; each is answered once and for all."""

    def __init__(self, policy):
        self.policy, self.number = policy, 0
        self.state = policy.problem.begin()

    @property
    def is_over(self):
        return self.policy.problem.is_over(self.number, self.state)

    def decide(self, arrival, uniform=None):
        """Answer an arrival: the most probable decision, or the one in whose share a number of [0, 1) falls."""
        problem = self.policy.problem
        if self.is_over:
            raise ArrivalError("the episode is over: nothing more can be decided.")
        if not isinstance(arrival, dict):
            raise ArrivalError(f"an arrival is a JSON object such as {problem.example}, got {_short(arrival)}.")
        seen = problem.seen(arrival, self.state)
        probabilities = self.policy.probabilities(problem.variables(self.number + 1, seen, self.state))
        # What cannot be done comes to doing nothing.
        possible = problem.possible(seen, self.state)
        shares = np.where(possible, probabilities, 0.0)
        shares[0] += float(np.sum(probabilities[~possible]))
        action = int(np.argmax(shares)) if uniform is None else int(np.sum(uniform >= np.cumsum(shares)[:-1]))
        self.state = problem.step(seen, self.state, action)
        self.number += 1
        return {
            "number": self.number,
            "decision": problem.name_of(action),
            "probability": float(shares[action]),
            "state": {**problem.told(self.number, self.state), "is_over": self.is_over},
        }


def _number(arrival, name, low, high, example):
    value = arrival.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ArrivalError(f"`{name}` must be a finite number, as in {example}, got {_short(value)}.")
    if not low <= value <= high:
        raise ArrivalError(f"`{name}` must be between {low:g} and {high:g}, got {value:g}.")
    return float(value)


def _short(value):
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


class _Stopping:
    """Best choice: accept one arrival; it wins if it is the best of all."""

    num_degrees, example = (None, 2), '{"record": true} or {"value": 3.2}'

    def __init__(self, rules):
        self.horizon = rules["horizon"]

    def begin(self):
        return {"best": None, "accepted": None}

    def is_over(self, number, state):
        return number >= self.horizon or state["accepted"] is not None

    def seen(self, arrival, state):
        if ("record" in arrival) == ("value" in arrival):
            raise ArrivalError(f"an arrival has `record` or `value`, as in {self.example}, got {_short(arrival)}.")
        if "record" in arrival:
            if not isinstance(arrival["record"], bool):
                raise ArrivalError(f"`record` must be true or false, got {_short(arrival['record'])}.")
            return {"is_record": arrival["record"], "value": None}
        value = _number(arrival, "value", -math.inf, math.inf, self.example)
        return {"is_record": state["best"] is None or value > state["best"], "value": value}

    def variables(self, number, seen, state):
        return [[number / self.horizon, float(seen["is_record"])]]

    def possible(self, seen, state):
        return np.array([True, True])

    def step(self, seen, state, action):
        best = seen["value"] if seen["is_record"] and seen["value"] is not None else state["best"]
        return {"best": best, "accepted": action == 1 or None}

    def name_of(self, action):
        return ("reject", "accept")[action]

    def told(self, number, state):
        return {"arrivals_left": self.horizon - number, "best_so_far": state["best"]}


class _Knapsack:
    """Fill a bag of a given size until the value inside reaches a target, or with as much as can be had."""

    example = '{"size": 0.3, "value": 0.8}'

    def __init__(self, rules):
        # Without a target the value itself counts, and is not seen.
        self.horizon, self.budget, self.target = rules["horizon"], rules["budget"], rules.get("target")
        self.largest, self.dearest = rules["largest_size"], rules["largest_value"]
        # Arrivals come in the user's units; the policy was learned in others.
        self.units = rules.get("units", {"size": 1.0, "value": 1.0})
        self.num_degrees = (None,) * (4 if self.target is None else 5)

    def begin(self):
        return {"used": 0.0, "value": 0.0}

    def is_over(self, number, state):
        return number >= self.horizon or _is_reached(state["value"], self.target)

    def seen(self, arrival, state):
        limits = ("size", self.largest), ("value", self.dearest)
        return {name: _number(arrival, name, 0.0, most, self.example) for name, most in limits}

    def variables(self, number, seen, state):
        used = state["used"] / (self.budget or 1.0)
        size, value = (seen[name] / self.units[name] for name in ("size", "value"))
        return [[number / self.horizon, size, value, used, *_part_of(state["value"], self.target)]]

    def possible(self, seen, state):
        return np.array([True, state["used"] + seen["size"] <= self.budget])

    def step(self, seen, state, action):
        if action == 0:
            return state
        return {"used": state["used"] + seen["size"], "value": state["value"] + seen["value"]}

    def name_of(self, action):
        return ("leave", "take")[action]

    def told(self, number, state):
        return {
            "arrivals_left": self.horizon - number,
            "room_left": self.budget - state["used"],
            "value": state["value"],
            "is_reached": _is_reached(state["value"], self.target),
        }


class _AdWords:
    """Give each slot to an advertiser with budget left, until the revenue reaches a target, or to the end."""

    def __init__(self, rules):
        self.horizon, self.target, self.num_advertisers = rules["horizon"], rules.get("target"), rules["advertisers"]
        self.highest, self.budgets = rules["highest_bids"], rules.get("budgets", [1.0] * rules["advertisers"])
        self.unit = rules.get("units", {"bid": 1.0})["bid"]
        self.num_degrees = (None,) * (3 if self.target is None else 4)
        self.example = json.dumps({"bids": [0.4] * min(self.num_advertisers, 3)})

    def begin(self):
        return {"budgets": list(self.budgets), "revenue": 0.0}

    def is_over(self, number, state):
        return number >= self.horizon or _is_reached(state["revenue"], self.target)

    def seen(self, arrival, state):
        bids = arrival.get("bids")
        if not isinstance(bids, list) or len(bids) != self.num_advertisers:
            raise ArrivalError(f"`bids` must be a list of {self.num_advertisers} numbers, got {_short(bids)}.")
        named = [{f"bids[{place}]": bid} for place, bid in enumerate(bids)]
        return [
            _number(one, f"bids[{place}]", 0.0, self.highest[place], self.example) for place, one in enumerate(named)
        ]

    def variables(self, number, seen, state):
        part = _part_of(state["revenue"], self.target)
        rows = zip([0.0, *seen], [0.0, *state["budgets"]])  # noqa: B905 (older Pythons)
        return [[number / self.horizon, bid / self.unit, budget / self.unit, *part] for bid, budget in rows]

    def possible(self, seen, state):
        pairs = zip(seen, state["budgets"])  # noqa: B905
        return np.array([True, *(budget >= bid for bid, budget in pairs)])

    def step(self, seen, state, action):
        if action == 0:
            return state
        budgets = list(state["budgets"])
        budgets[action - 1] -= seen[action - 1]
        return {"budgets": budgets, "revenue": state["revenue"] + seen[action - 1]}

    def name_of(self, action):
        return None if action == 0 else action - 1

    def told(self, number, state):
        return {
            "arrivals_left": self.horizon - number,
            "budgets": state["budgets"],
            "revenue": state["revenue"],
            "is_reached": _is_reached(state["revenue"], self.target),
        }


class _Choosing:
    """Choose up to k arrivals; what pays is their final rank, or their value."""

    example = '{"value": 3.2}'

    def __init__(self, rules):
        self.horizon, self.num_picks, self.dearest = rules["horizon"], rules["picks"], rules.get("largest_value")
        self.num_degrees = (None, None, None if self.num_picks > 1 else 1)

    def begin(self):
        return {"values": [], "left": self.num_picks}

    def is_over(self, number, state):
        return number >= self.horizon or state["left"] == 0

    def seen(self, arrival, state):
        limits = (-math.inf, math.inf) if self.dearest is None else (0.0, self.dearest)
        return _number(arrival, "value", *limits, self.example)

    def variables(self, number, seen, state):
        # Ranks are seen as 1, 1/2, 1/3, ..; of two that are equal the earlier is better.
        rank = 1 + sum(value >= seen for value in state["values"])
        return [[number / self.horizon, 1 / rank if self.dearest is None else seen, state["left"] / self.num_picks]]

    def possible(self, seen, state):
        return np.array([True, True])

    def step(self, seen, state, action):
        return {"values": [*state["values"], seen], "left": state["left"] - action}

    def name_of(self, action):
        return ("reject", "accept")[action]

    def told(self, number, state):
        best = max(state["values"], default=None)
        return {"arrivals_left": self.horizon - number, "picks_left": state["left"], "best_so_far": best}


def _is_reached(collected, target):
    return target is not None and collected >= target


def _part_of(collected, target):
    """What is seen of the way to a target, where there is one."""
    return [] if target is None else [collected / target]


PROBLEMS = {
    "bcp": _Stopping,
    "okd": _Knapsack,
    "adw": _AdWords,
    "choice": _Choosing,
    "okd_value": _Knapsack,
    "adw_value": _AdWords,
}


def _dot_of(features, num_degrees, horizon):
    """theta . phi for the features of a name."""
    name, _, degree = features.partition(":")
    if name == "one_hot":
        return lambda theta, row: float(theta[2 * round(row[0] * horizon - 1) + round(row[1])])
    degrees = [known or int(degree) for known in num_degrees]
    basis = {"monomial": _monomials, "legendre": _legendre}[name]

    def dot(theta, row):
        # The first variable's degree runs fastest: contract it first.
        rest = theta
        for value, count in zip(row, degrees):  # noqa: B905
            rest = rest.reshape(-1, count) @ basis(value, count)
        return float(rest[0])

    return dot


def _monomials(value, count):
    return np.array([value**power for power in range(count)])


def _legendre(value, count):
    z, found = 2.0 * value - 1.0, [1.0, 2.0 * value - 1.0]
    for k in range(1, count - 1):
        found.append(((2 * k + 1) * z * found[k] - k * found[k - 1]) / (k + 1))
    return np.array(found[:count])
