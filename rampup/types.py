"""The shape vocabulary: array types that cross module borders, each axis named by a word."""

from collections.abc import Callable
from typing import TypeAlias

import jaxtyping
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Key: TypeAlias = PRNGKeyArray
Keys: TypeAlias = jaxtyping.Key[Array, " lane"]
Action: TypeAlias = Int[Array, ""]
Reward: TypeAlias = Float[Array, ""]
Flag: TypeAlias = Bool[Array, ""]
Real: TypeAlias = Float[Array, ""]

Observation: TypeAlias = Float[Array, " obs"]
"""What the player sees: the paper's state as one vector."""

Variables: TypeAlias = Float[Array, "row var"]
"""The variables the features are functions of: a row per action, or one row for accept-or-reject."""

Theta: TypeAlias = Float[Array, " feat"]
LogProbs: TypeAlias = Float[Array, " action"]
Probs: TypeAlias = Float[Array, " action"]

PolicyFn: TypeAlias = Callable[[Observation], LogProbs]
"""A policy: log-probabilities of the actions, given what the player sees."""

__all__ = [
    "Action",
    "Flag",
    "Key",
    "Keys",
    "LogProbs",
    "Observation",
    "PolicyFn",
    "Probs",
    "Real",
    "Reward",
    "Theta",
    "Variables",
]
