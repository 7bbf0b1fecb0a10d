"""How long each scheme of an experiment trains on what: so many updates, or all with the same number of samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rampup import arguments
from rampup.config import Experiment
from rampup.learn.curriculum import SCHEMES, Stages, multi_step, scheme
from rampup.learn.trainer import Run, Settings, samples_of_update
from rampup.problems.base import Problem

SCHEMES_OF_EXPERIMENTS = (*SCHEMES, "multi_step", "auto")


@dataclass(frozen=True)
class Schedule:
    """The problems of an experiment, and how its runs are made of them."""

    experiment: Experiment
    settings: Settings
    problem: Problem
    warmup: Problem | None
    steps: Sequence[Problem]
    """The growing problems of multi_step."""
    auto_warmup: Problem | None

    def run(self, name: str, seed: int) -> Run:
        """One run of a scheme."""
        arguments.known_name("scheme", name, SCHEMES_OF_EXPERIMENTS)
        if name == "multi_step":
            budget = self.experiment.trainer.samples
            return Run(name, self._growing(budget), seed, samples=budget)
        return Run(name, self._auto() if name == "auto" else self._of_scheme(name), seed)

    def _of_scheme(self, name: str) -> Stages:
        trainer = self.experiment.trainer
        if trainer.samples is None:
            return self._stages(name, self.warmup, self.experiment.iterations_of(name), trainer.warmup_iterations)
        if len(self._stages(name, self.warmup, 1, 1)) == 1 or self.warmup is None:
            return self._stages(name, self.warmup, self._updates(self.problem, trainer.samples))
        before = trainer.warmup_iterations or self._updates(self.warmup, trainer.samples // 2)
        return self._in_two_phases(name, self.warmup, before, trainer.samples)

    def _auto(self) -> Stages:
        """A warm-up as long as its predicted part of the samples, or none; as many samples in all as `direct`."""
        chosen, trainer = self.experiment.auto, self.experiment.trainer
        if chosen is None:
            raise ValueError("the scheme 'auto' needs `auto`, which `rampup run` finds when it begins.")
        each = samples_of_update(self.problem, self.settings)
        samples = trainer.samples or self.experiment.iterations_of("auto") * each
        if self.auto_warmup is None:
            return self._stages("direct", None, self._updates(self.problem, samples))
        before = self._updates(self.auto_warmup, int(samples * chosen.part))
        return self._in_two_phases("curl", self.auto_warmup, before, samples)

    def _in_two_phases(self, name: str, warmup: Problem, before: int, samples: int) -> Stages:
        left = samples - before * samples_of_update(warmup, self.settings)
        return self._stages(name, warmup, self._updates(self.problem, left), before)

    def _growing(self, samples: int | None) -> Stages:
        given = self.experiment.multi_step
        if given is None:
            raise ValueError("the scheme 'multi_step' needs `multi_step.sizes`.")
        if samples is None:
            iterations = self.experiment.iterations_of("multi_step")
            return multi_step(self.steps, iterations=iterations, promote_at=given.promote_at)
        # No step may take more than its share; what they leave is for the last.
        share = samples // len(self.steps)
        lengths = [self._updates(one, samples if one is self.problem else share) for one in self.steps]
        stages = multi_step(self.steps, iterations=1, promote_at=given.promote_at)
        return tuple(replace(stage, iterations=length) for stage, length in zip(stages, lengths, strict=True))

    def _stages(self, name: str, warmup: Problem | None, iterations: int, before: int | None = None) -> Stages:
        weight = self.experiment.trainer.regularisation
        lengths = {"iterations": iterations, "warmup_iterations": before}
        return scheme(name, self.problem, warmup, **lengths, regularisation=weight)

    def _updates(self, problem: Problem, samples: int) -> int:
        """How many updates so many samples allow."""
        each = samples_of_update(problem, self.settings)
        if samples < each:
            left = max(samples, 0)
            raise ValueError(f"`trainer.samples` are too few: an update takes {each}, and {left} are left for it.")
        return samples // each
