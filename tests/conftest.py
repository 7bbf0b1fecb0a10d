"""Tests run in double precision, with silent rank and dtype promotion forbidden and all shapes checked."""

import jax
from hypothesis import settings
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# Not the parts that must refuse bad types themselves, with a sentence.
CHECKED = ("exact", "learn", "solvers", "diagnostics", "features", "kappa", "episodes", "policy")
install_import_hook([f"rampup.{name}" for name in CHECKED], "beartype.beartype")

# Examples take as long as compiling does, and a failure must be found again by whoever looks next.
settings.register_profile("rampup", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("rampup")
