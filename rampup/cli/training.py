"""The command that trains policies without a run folder."""

from typing import Annotated, Any

import typer

from rampup.cli.options import AsJson, ProblemArgument, ProblemOption, Setting, examples, only_one, parameters
from rampup.cli.progress import progress_bar
from rampup.cli.terminal import paper, print_json, print_table, short
from rampup.runtime import set_up

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "rampup train bcp --set n=100 --scheme curl --warmup n=10 --iterations 400 --seeds 8 --json",
        "rampup train okd --set n=100 --set B=10 --set V=25 --scheme curl --scheme direct "
        "--warmup n=10 --warmup B=1 --warmup V=2",
        "rampup train --problem my_file.py:MyProblem --set n=50 --warmup n=10",
    )
)
def train(
    problem: ProblemArgument = None,
    own: ProblemOption = None,
    settings: Setting = None,
    schemes: Annotated[
        list[str] | None,
        typer.Option(
            "--scheme", help="direct, naive_samp, curl, fix_samp_curl, or one of these with _reg; may be repeated."
        ),
    ] = None,
    warmup: Annotated[
        list[str] | None,
        typer.Option(help="A parameter in which the warm-up problem differs, as name=value; may be repeated."),
    ] = None,
    iterations: Annotated[int, typer.Option(help="Updates on the problem itself.")] = 400,
    warmup_iterations: Annotated[
        int | None, typer.Option(help="Updates on the warm-up problem; as many by default.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds: 0, 1, and so on.")] = 1,
    features: Annotated[str | None, typer.Option("--features", help="one_hot, monomial:D0 or legendre:D0.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="eta; by default the paper's for the problem.")] = None,
    lanes: Annotated[int, typer.Option(help="N, episodes for each step of the horizon in an update.")] = 100,
    radius: Annotated[float, typer.Option(help="G, the radius of the ball a step stays in.")] = 10.0,
    clip: Annotated[float, typer.Option(help="U, the clip of the entropy bonus.")] = 15.0,
    regularisation: Annotated[float, typer.Option(help="lambda of the _reg schemes.")] = 0.01,
    estimator: Annotated[str, typer.Option(help="algorithm4, paired, or exact (bcp).")] = "algorithm4",
    solver: Annotated[str, typer.Option(help="ball or ridge_project.")] = "ball",
    steps_per_iteration: Annotated[
        int | None,
        typer.Option(help="K: how many steps of the horizon an update visits, at random; all of them by default."),
    ] = None,
    record_every: Annotated[int, typer.Option(help="Updates between two recorded rows.")] = 100,
    reference: Annotated[
        str | None, typer.Option(help="A rule or a policy file to measure against; see evaluate --policy.")
    ] = None,
    save: Annotated[str | None, typer.Option(help="A folder for the policies, one SCHEME-SEED.json a run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train policies: all schemes and seeds as one batch."""
    set_up()
    from rampup.learn.session import train_session

    with progress_bar() as on_progress:
        answer = train_session(
            only_one(problem, own),
            parameters("--set", settings),
            parameters("--warmup", warmup),
            schemes or ["curl"],
            seeds=seeds,
            iterations=iterations,
            warmup_iterations=warmup_iterations,
            features=features,
            learning_rate=learning_rate,
            num_lanes=lanes,
            radius=radius,
            clip=clip,
            regularisation=regularisation,
            estimator=estimator,
            solver=solver,
            steps_per_iteration=steps_per_iteration,
            record_every=record_every,
            reference=reference,
            save=save,
            on_progress=on_progress,
        )
    if as_json:
        print_json(answer)
    else:
        _show_training(answer)


def _show_training(answer: dict[str, Any]) -> None:
    rows = [
        [
            run["scheme"],
            run["seed"],
            f"{run['value']:.4f}",
            f"{run['reference_value']:.4f}",
            "" if run["optimal_value"] is None else f"{run['optimal_value']:.4f}",
            short(run["ln_kappa"]),
            f"{run['avg_err']:.4f}",
            f"{run['samples']:,}",
        ]
        for run in answer["runs"]
    ]
    header = ["scheme", "seed", "value", answer["reference"], "optimum", "ln kappa", "avg err", "samples"]
    print_table(paper(), header, rows)
