"""Registers the environments with Gymnasium as soon as somebody imports it.

Gymnasium 1.0 dropped the entry points through which packages announced their environments, so the installed file
`rampup_gymnasium.pth` imports this module when Python starts. It loads nothing heavy: it waits for Gymnasium's registry
and adds its entries to it. `import rampup` has the same effect where the package was not installed.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_REGISTRY = "gymnasium.envs.registration"

ENVIRONMENTS = {
    "rampup/BestChoice-v0": "bcp",
    "rampup/OnlineKnapsack-v0": "okd",
    "rampup/AdWords-v0": "adw",
    "rampup/Choice-v0": "choice",
    "rampup/OnlineKnapsackValue-v0": "okd_value",
    "rampup/AdWordsValue-v0": "adw_value",
}
ANY_PROBLEM = "rampup/Problem-v0"


def register_envs(registration: ModuleType) -> None:
    """Add the environments to the registry, once; that of any problem is told which by `problem=`."""
    given = {name: {"problem": problem} for name, problem in ENVIRONMENTS.items()} | {ANY_PROBLEM: {}}
    for name, arguments in given.items():
        if name not in registration.registry:
            registration.register(
                id=name,
                entry_point="rampup.gym:ProblemEnv",
                vector_entry_point="rampup.gym:ProblemVectorEnv",
                kwargs=arguments,
            )


class _RegistryFinder:
    """Finds Gymnasium's registry where the others find it, and registers our environments once it is loaded."""

    def find_spec(self, fullname: str, path=None, target=None) -> ModuleSpec | None:
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                register_envs(module)

            spec.loader.exec_module = load_and_register
        return spec


def install() -> None:
    """Register now if Gymnasium is there already, else when it comes."""
    if _REGISTRY in sys.modules:
        register_envs(sys.modules[_REGISTRY])
    elif not any(isinstance(finder, _RegistryFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegistryFinder())


install()
