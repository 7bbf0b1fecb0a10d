"""Sums over states of scores and of their squares, of which gradients and Fisher matrices consist.

A score is a combination of the features of a state's actions. Variables that all actions share make a factor that is
the same in all these features: phi(s, a) = shared(s) x own(s, a). So a score is shared(s) times the same combination
of the own factors, which are far shorter than phi, and few of the products in shared(s) shared(s)' differ.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup.features import Features, Polynomial, sum_of_products
from rampup.types import Theta

States = Float[Array, "state row var"]
"""The variables of every action of some states."""

Scores = Float[Array, "state score own"]
"""Some scores of each of some states, each by its own factor."""


class Split(NamedTuple):
    """The features of an action as the products of two factors."""

    shared: Polynomial
    """Of what all actions of a state share; of nothing, and so 1, where that is not known."""
    own: Features
    shared_places: Sequence[int]
    own_places: Sequence[int]
    order: np.ndarray
    """Where each feature is among the products, of which the own factor runs fastest."""

    def rows(self, states: States) -> Float[Array, "state row own"]:
        """The own factor of every action."""
        return jax.vmap(jax.vmap(self.own.phi))(_at(self.own_places, states))

    def differences(self, states: States) -> Float[Array, "state row own"]:
        """The same less the first action's. Scores depend on nothing else, and what all actions share leaves exactly 0.

        Rounding would leave little more than nothing, of which a matrix that is scaled to a unit diagonal makes much.
        """
        rows = self.rows(states)
        return rows - rows[:, :1]

    def sums(self, weights: Float[Array, "state score"], scores: Scores, states: States) -> Theta:
        """The sum of w score over all scores."""
        own = jnp.sum(weights[:, :, None] * scores, axis=1)
        return sum_of_products(self._shared_rows(states).T, own.T).ravel()[self.order]

    def squares(
        self, weights: Float[Array, "state score"], scores: Scores, states: States
    ) -> Float[Array, "feat feat"]:
        """The sum of w score score' over all scores, of weights that are not negative."""
        # A root of the weight on both sides: one array is written, not two.
        rooted = jnp.sqrt(weights)[:, :, None] * scores
        size = len(self.order)
        if self.own.size > scores.shape[1] * self.shared.size:
            # The squares of the own factors would be more numbers than the scores are.
            whole = (self._shared_rows(states)[:, None, :, None] * rooted[:, :, None, :]).reshape(-1, size)
            squares = sum_of_products(whole.T, whole.T)
        else:
            own = jnp.sum(rooted[:, :, :, None] * rooted[:, :, None, :], axis=1)
            moments = self.shared.moments(_at(self.shared_places, states[:, 0]))
            sums = self.shared.gram_of(sum_of_products(moments, own.reshape(len(own), -1).T))
            sums = sums.reshape(*own.shape[1:], self.shared.size, self.shared.size)
            squares = sums.transpose(2, 0, 3, 1).reshape(size, size)
        return squares[self.order[:, None], self.order]

    def _shared_rows(self, states: States) -> Float[Array, "state shared"]:
        """The factor that all actions share."""
        return jax.vmap(self.shared.phi)(_at(self.shared_places, states[:, 0]))


def split(features: Features, num_variables: int, shared: Sequence[int]) -> Split:
    """Split features by the places of the variables that are the same for all actions of a state."""
    places = range(num_variables)
    if not isinstance(features, Polynomial):
        return Split(Polynomial(()), features, (), places, np.arange(features.size))
    parts = [place for place in places if place in shared], [place for place in places if place not in shared]
    of_shared, of_own = (Polynomial([features.degrees[place] for place in part], features.basis) for part in parts)
    # The axes of phi, of which the last variable's comes first.
    axes = [num_variables - 1 - place for part in parts for place in part[::-1]]
    products = np.arange(features.size).reshape(features.degrees[::-1]).transpose(axes)
    return Split(of_shared, of_own, *parts, np.argsort(products.ravel()))


def combination(features: Features, weights: Float[Array, "state row"], states: States, shared: Sequence[int]) -> Theta:
    """The sum of w phi over all actions of all states."""
    if not shared:
        return features.combination(weights.ravel(), states.reshape(-1, states.shape[-1]))
    parts = split(features, states.shape[-1], shared)
    return parts.sums(weights, parts.rows(states), states)


def _at(places: Sequence[int], variables: Float[Array, "... var"]) -> Float[Array, "... part"]:
    """The variables at some places."""
    return variables[..., np.asarray(places, int)]
