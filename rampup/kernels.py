"""Kernels for a GPU: whether there can be any here, and how one is launched."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import jax


def can_be_had() -> bool:
    """Whether programs may have kernels: on a GPU, with a JAX that writes them by Triton, as not all will.

    Whatever a kernel does is there without one too, only slower.
    """
    return jax.default_backend() == "gpu" and find_spec("jax.experimental.pallas.triton") is not None


def launch(
    kernel: Callable[..., None],
    arrays: Sequence[Any],
    blocks: Sequence[Any],
    shapes: Sequence[jax.ShapeDtypeStruct],
    blocks_found: Sequence[Any],
    *,
    num_blocks: int,
    num_warps: int,
) -> Sequence[Any]:
    """Run a kernel on every block; on a CPU it is interpreted, for tests.

    Args:
        blocks: what of each array a block reads, as Pallas' `BlockSpec`.
        shapes: of the arrays that it finds, of which a block writes `blocks_found`.
    """
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    return pallas.pallas_call(
        kernel,
        list(shapes),
        grid=(num_blocks,),
        in_specs=list(blocks),
        out_specs=list(blocks_found),
        compiler_params=triton.CompilerParams(num_warps=num_warps, num_stages=1),
        interpret=jax.default_backend() == "cpu",
    )(*arrays)
