"""The command that advises before training."""

from typing import Annotated, Any

import typer

from rampup.cli.options import (
    AsJson,
    ProblemOption,
    SeriesShortcut,
    Setting,
    examples,
    only_one,
    parameters,
    with_series,
)
from rampup.cli.progress import work_bar
from rampup.cli.terminal import paper, print_json, print_table, short
from rampup.runtime import set_up

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "rampup advise bcp --set n=100",
        "rampup advise bcp --set n=100 --series series.json --json",
        "rampup advise bcp-classical --preset quick",
        "rampup advise okd --set n=100 --set B=10 --set V=25 --warmup n=10 --warmup B=1 --warmup V=2",
    )
)
def advise(
    problem: Annotated[
        str | None,
        typer.Argument(help="A problem by name or as FILE.py:CLASS; or an experiment, by its name or as a YAML file."),
    ] = None,
    own: ProblemOption = None,
    settings: Setting = None,
    series: SeriesShortcut = None,
    policies: Annotated[
        list[str] | None, typer.Option("--policy", help="A further sampler to try: a rule or a policy file.")
    ] = None,
    warmup: Annotated[
        list[str] | None,
        typer.Option(help="Try this small problem only: a parameter in which it differs, name=value; may be repeated."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            help="In whose span kappa is taken; by default the experiment's, bcp: one_hot, else monomial:3.",
        ),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Of an experiment: paper (full size) or quick.")] = None,
    budget: Annotated[float, typer.Option(help="Samples beyond which a plan is hopeless.")] = 1e9,
    seed: Annotated[int, typer.Option(help="Where kappa is sampled.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Does a curriculum pay, and with which warm-up? Kappa of candidate samplers, before any training."""
    set_up()
    from rampup.stories import advice

    name, known, common = _described(only_one(problem, own), preset)
    if features is not None:
        common["features"] = features
    with work_bar() as tell:
        answer = advice(
            name,
            known | with_series(parameters("--set", settings), series),
            parameters("--warmup", warmup),
            policies or [],
            **common,
            budget=budget,
            seed=seed,
            on_progress=tell,
        )
    if as_json:
        print_json(answer)
    else:
        _show_advice(answer)


def _described(name: str, preset: str | None) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A problem by its own name or by that of an experiment: its name, its parameters, and what else is known of it."""
    from rampup import arguments, config
    from rampup.problems import PROBLEMS
    from rampup.problems.own import announced_names, is_file_and_class

    known = [*PROBLEMS, *announced_names()]
    if name in known or is_file_and_class(name):
        if preset is not None:
            raise ValueError(f"`--preset` is for experiments, and {name!r} is a problem.")
        return name, {}, {"features": None}
    if not config.is_file_name(name):
        arguments.known_name("problem or experiment", name, [*known, *config.shipped_names()])
    found = config.load(name, preset=preset or "paper")
    own_warmup = found.warmup.parameters if found.warmup else None
    common = {"features": found.features, "reference": found.reference, "own_warmup": own_warmup}
    return found.problem.name, found.problem.parameters, common


def _show_advice(answer: dict[str, Any]) -> None:
    console = paper()
    warmup = answer["warmup"] and ", ".join(f"{name} = {_size(value)}" for name, value in answer["warmup"].items())
    console.print(f"[bold]{answer['recommend']}[/]" + (f", warm-up on {warmup}" if warmup else ""))
    console.print(answer["why"] + "\n")
    rows = [
        [
            one["sampler"],
            short(one["ln_kappa"]),
            "" if one["ln_kappa_warmup"] is None else short(one["ln_kappa_warmup"]),
            short(one["ln_samples"]),
        ]
        for one in answer["candidates"]
    ]
    print_table(console, ["sampler", "ln kappa", "ln kappa of the warm-up", "ln samples, about"], rows)


def _size(value: Any) -> str:
    """A parameter; numbers without the digits that only rounding put there."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)
