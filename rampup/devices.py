"""One update over many devices: each plays a share of the lanes, and what they find is added up.

The random numbers of a lane depend on its number alone, so that they are the same however many devices there are.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

_AXIS = "lanes"

Tree = TypeVar("Tree")


class Share(NamedTuple):
    """Which part of the lanes a device plays: the one at this place, of so many."""

    place: Int[Array, ""]
    num_shares: int


@cache
def mesh() -> Mesh | None:
    """All devices, of all processes, in a row; nothing where there is but one."""
    return Mesh(np.array(jax.devices()), (_AXIS,)) if jax.device_count() > 1 else None


def added_up(of_share: Callable[[Share | None], Any]) -> Any:
    """What comes of all lanes, given what comes of a share of them; None is all of them."""
    devices = mesh()
    if devices is None:
        return of_share(None)

    def own() -> Any:
        return jax.lax.psum(of_share(Share(jax.lax.axis_index(_AXIS), devices.size)), _AXIS)

    return jax.shard_map(own, mesh=devices, in_specs=(), out_specs=PartitionSpec(), check_vma=False)()


def everywhere(tree: Tree) -> Tree:
    """The same arrays on all devices: every process must hold the same ones."""
    devices = mesh()
    if devices is None:
        return tree
    return _moved(tree, NamedSharding(devices, PartitionSpec()))


def here(tree: Tree) -> Tree:
    """The same arrays on the first device of this process."""
    return tree if mesh() is None else _moved(tree, jax.sharding.SingleDeviceSharding(jax.local_devices()[0]))


def _moved(tree: Any, sharding: jax.sharding.Sharding) -> Any:
    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array):
            return leaf
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    return jax.tree.map(moved, tree)
