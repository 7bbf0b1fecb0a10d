"""The command that sets policies side by side."""

from typing import Annotated, Any

import typer

from rampup.cli.options import (
    AsJson,
    ProblemArgument,
    ProblemOption,
    SeriesShortcut,
    Setting,
    examples,
    only_one,
    parameters,
    with_series,
)
from rampup.cli.progress import work_bar
from rampup.cli.terminal import ends_text, native_output_on_stderr, paper, print_json, print_table, with_margin
from rampup.runtime import configure_jax

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "rampup evaluate okd --set n=100 --set B=10 --set V=25 --policy bang_per_buck --policy greedy --optimum",
        "rampup evaluate bcp --set n=100 --policy optimal --policy threshold:30 --policy policies/curl-0.json",
        "rampup evaluate adw --set n=10 --set m=20 --set V=9 --policy msvv --policy balance --hindsight 200 "
        "--picture comparison.png",
    )
)
def evaluate(
    problem: ProblemArgument = None,
    own: ProblemOption = None,
    settings: Setting = None,
    series: SeriesShortcut = None,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="A rule by name (bcp: optimal, odds, threshold:K or threshold:Q; okd: bang_per_buck, "
            "bang_per_buck:RATIO, bang_per_buck_success, greedy, accept_everything, dynamic_program; adw: greedy, "
            "best_fit, msvv, balance; all: naive), or a policy file; may be repeated.",
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Instances, the same for all policies.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Decides the instances and all choices.")] = 0,
    optimum: Annotated[bool, typer.Option("--optimum", help="Bound the best any online player can do.")] = False,
    hindsight: Annotated[int, typer.Option(help="Instances given to an all-seeing player.")] = 0,
    picture: Annotated[str | None, typer.Option(help="A file to draw the comparison to: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set policies side by side on the same instances: values, intervals, distance to the best possible."""
    configure_jax()
    from rampup.checks import make_checked
    from rampup.evaluation import evaluate as evaluation_of
    from rampup.references import policy_named
    from rampup.report.comparison import checked_picture_name, draw_comparison

    if picture is not None:
        checked_picture_name(picture)
    one = make_checked(only_one(problem, own), with_series(parameters("--set", settings), series))
    if not policies:
        raise ValueError("give at least one `--policy`.")
    with work_bar() as tell:
        chosen = {}
        for name in policies:
            if name in chosen:
                raise ValueError(f"`--policy` was given twice for {name!r}.")
            tell(f"preparing {name}", 0, 0)
            chosen[name] = policy_named(one, name)
        with native_output_on_stderr():
            answer = evaluation_of(
                one,
                chosen,
                episodes=episodes,
                seed=seed,
                with_optimum=optimum,
                hindsight_instances=hindsight,
                on_progress=tell,
            )
    if picture is not None:
        draw_comparison(answer, picture)
    if as_json:
        print_json(answer)
    else:
        _show_evaluation(answer)


def _show_evaluation(answer: dict[str, Any]) -> None:
    from rampup.report.words import measure_of

    console = paper()
    has_optimum, has_hindsight = answer["optimum"] is not None, answer["hindsight"] is not None
    measure = measure_of(answer["problem"])
    # Where there is no target, what is collected is the value.
    has_target = measure == "success rate"
    header = ["policy", measure, *(["collects"] if has_target else [])]
    header += ["below optimum"] * has_optimum + ["of hindsight"] * has_hindsight
    rows = []
    for entry in answer["policies"]:
        row = [entry["policy"], with_margin(entry["value"], entry["interval"])]
        row += [f"{entry['collected']:.3f}"] if has_target else []
        row += [ends_text(entry["gap_to_optimum"])] if has_optimum else []
        if has_hindsight:
            ratio = entry["competitive_ratio"]
            row.append("" if ratio is None else with_margin(ratio, entry["competitive_ratio_interval"]))
        rows.append(row)
    print_table(console, header, rows)
    if answer["differences"]:
        console.print()
        pairs = [
            [f"{one['policy']} - {one['minus']}", with_margin(one["difference"], one["interval"])]
            for one in answer["differences"]
        ]
        print_table(console, ["paired difference", f"in {measure}"], pairs)
    if has_optimum:
        best = answer["optimum"]
        where = f"{best['lower']:.7f}" if best["method"] == "exact" else f"{best['lower']:.4f} to {best['upper']:.4f}"
        console.print(f"\nThe best any online player can do: {where} ({best['method'].replace('_', ' ')}).")
    if has_hindsight:
        seen = answer["hindsight"]
        does = f"succeeds on {seen['value']:.4f} of" if has_target else f"earns {seen['value']:.4f} on average over"
        console.print(
            f"An all-seeing player {does} {seen['instances']} instances, 95% interval {ends_text(seen['interval'])}."
        )
