"""What one would take instead: TRPO of sb3-contrib on our Gymnasium environment, until it is nearly optimal."""

import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from rampup.exact import bcp
from rampup.features import as_features
from rampup.learn.curriculum import scheme
from rampup.learn.trainer import Run, Settings, Training
from rampup.problems.bcp import BCP
from rampup.references.named import optimal

NUM_ARRIVALS = 100
"""Of the best choice problem that both learn."""
ENOUGH = 0.9
"""The part of the optimal value to be reached."""
MOST_STEPS = 500_000
"""Where the rival is stopped, good enough or not."""


def require() -> None:
    """Complain now, not after minutes of work, where the rival is not installed."""
    try:
        import sb3_contrib  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(
            "`--rival` needs sb3-contrib and torch: pip install 'rampup[rivals]' (the CPU build of torch will do)."
        ) from None


def rows(tell: Callable[[str, int, int], None]) -> list[dict[str, Any]]:
    """Episodes and seconds until 90% of the optimal value: the rival, and ours without and with a curriculum."""
    return [_rival(tell), *(_ours(name) for name in ("direct", "curl"))]


def _part_of_optimum(policy: bcp.BCPPolicy) -> float:
    """The exact chance of winning, as a part of the greatest."""
    problem = BCP(NUM_ARRIVALS)
    best = bcp.tabulated(optimal(problem), NUM_ARRIVALS)
    chance = lambda policy: float(bcp.values(problem.record_probs, policy).start)
    return chance(policy) / chance(best)


def _row(name: str, part: float, samples: int, seconds: float) -> dict[str, Any]:
    is_enough = part >= ENOUGH
    return {
        "name": name,
        "problem": f"bcp, n = {NUM_ARRIVALS}",
        "part_of_optimum": part,
        "episodes": samples,
        "seconds": seconds,
        "episodes_per_second": samples / seconds,
        "samples_to_90_percent": samples if is_enough else None,
    }


def _rival(tell: Callable[[str, int, int], None]) -> dict[str, Any]:
    import torch  # pyright: ignore[reportMissingImports]
    from sb3_contrib import TRPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]

    from rampup.gym import ProblemEnv

    states = torch.as_tensor(np.asarray(bcp.states(NUM_ARRIVALS), np.float32).reshape(2 * NUM_ARRIVALS, -1))

    class Watch(BaseCallback):
        part, episodes = 0.0, 0

        def _on_step(self) -> bool:
            self.episodes += int(self.locals["dones"].sum())
            return self.part < ENOUGH

        def _on_rollout_start(self) -> None:
            with torch.no_grad():
                logits = self.model.policy.get_distribution(states).distribution.logits.numpy()
            table = jnp.asarray(logits.reshape(NUM_ARRIVALS, 2, 2), float)
            self.part = _part_of_optimum(bcp.BCPPolicy(table[..., 1], table[..., 0]))
            tell(f"TRPO: {self.part:.0%} of the optimum", self.num_timesteps, MOST_STEPS)

    watch, start = Watch(), time.perf_counter()
    TRPO("MlpPolicy", ProblemEnv("bcp", n=NUM_ARRIVALS), seed=0, device="cpu").learn(MOST_STEPS, callback=watch)
    return _row("sb3-contrib TRPO", watch.part, watch.episodes, time.perf_counter() - start)


def _ours(name: str) -> dict[str, Any]:
    problem, warmup = BCP(NUM_ARRIVALS), BCP(NUM_ARRIVALS // 10)
    stages = scheme(name, problem, warmup, iterations=5000, warmup_iterations=100)
    settings = Settings(num_lanes=20, record_every=10)
    start = time.perf_counter()
    training = Training([Run(name, stages)], as_features("monomial:10", problem), settings)
    part, latest = 0.0, {"samples": 0}
    while part < ENOUGH and (found := training.advance()):
        latest = found[0]
        if latest["stage"] == len(stages) - 1:
            part = latest["value"] / latest["reference_value"]
    return _row(f"rampup {name}", part, latest["samples"], time.perf_counter() - start)
