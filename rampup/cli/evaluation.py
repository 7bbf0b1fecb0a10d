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
from rampup.runtime import set_up

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "rampup evaluate okd --set n=100 --set B=10 --set V=25 --policy bang_per_buck --policy greedy --optimum",
        "rampup evaluate bcp --set n=100 --policy optimal --policy threshold:30 --policy policies/curl-0.json",
        "rampup evaluate adw --set n=10 --set m=20 --set V=9 --policy msvv --policy balance --hindsight 200 "
        "--picture comparison.png",
        "rampup evaluate --data items.yaml --set B=100 --set V=400 --policy policy.json --policy bang_per_buck",
    )
)
def evaluate(
    problem: ProblemArgument = None,
    own: ProblemOption = None,
    settings: Setting = None,
    series: SeriesShortcut = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A description of your own data (`rampup data`), instead of a problem: policies are played on the "
            "held-out sequences as they came, and on resampled training rows."
        ),
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="A rule by name (bcp: optimal, odds, threshold:K or threshold:Q; okd: bang_per_buck, "
            "bang_per_buck:RATIO, bang_per_buck_success, greedy, accept_everything, dynamic_program; adw: greedy, "
            "best_fit, msvv, balance; choice: optimal, classical, accept_everything; okd_value: bang_per_buck, greedy, "
            "accept_everything; adw_value: as adw; all: naive), or a policy file; may be repeated.",
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Instances, the same for all policies.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Decides the instances and all choices.")] = 0,
    optimum: Annotated[bool, typer.Option("--optimum", help="Bound the best any online player can do.")] = False,
    hindsight: Annotated[int, typer.Option(help="Instances given to an all-seeing player.")] = 0,
    plays: Annotated[
        int | None, typer.Option(help="With `--data`: times each held-out sequence is played; 16 by default.")
    ] = None,
    picture: Annotated[str | None, typer.Option(help="A file to draw the comparison to: .png, .pdf or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Set policies side by side on the same instances: success rates or values, intervals, distance to the best.

    With `--data` the JSON document has a key held_out: sequences, rows, from, to, arrivals, plays, policies (each with
    value, interval, collected, collected_interval and what hindsight says of it), differences, hindsight; all other
    keys are of resampled training rows.
    """
    set_up()
    from rampup.checks import make_checked
    from rampup.data.sequences import load_data
    from rampup.evaluation import evaluate as evaluation_of
    from rampup.held_out import PLAYS, default_parameters, evaluate_held_out
    from rampup.references import policy_named
    from rampup.report.comparison import checked_picture_name, draw_comparison

    if picture is not None:
        checked_picture_name(picture)
    if plays is not None and data is None:
        raise ValueError("`--plays` is for `--data`.")
    if not policies:
        raise ValueError("give at least one `--policy`.")
    given = with_series(parameters("--set", settings), series)
    with work_bar() as tell:
        dataset = None
        if data is not None:
            if "data" in given:
                raise ValueError("give the data once: by `--data` or by `--set data=...`.")
            tell(f"reading {data}", 0, 0)
            dataset = load_data(data)
            # Its value form may be given.
            problem = dataset.description.problem if problem is None and own is None else problem
            given = default_parameters(dataset) | given | {"data": data}
        one = make_checked(only_one(problem, own), given)
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
            if dataset is not None:
                answer["held_out"] = evaluate_held_out(
                    one,
                    chosen,
                    dataset,
                    plays=PLAYS if plays is None else plays,
                    seed=seed,
                    hindsight_sequences=answer["hindsight"]["instances"] if answer["hindsight"] else 0,
                    on_progress=tell,
                )
    if picture is not None:
        draw_comparison(answer, picture)
    if as_json:
        print_json(answer)
    else:
        _show_evaluation(answer)


def _show_evaluation(answer: dict[str, Any]) -> None:
    console = paper()
    if "held_out" in answer:
        _show_held_out(answer["held_out"], answer["is_rate"], console)
        console.print(f"\nResampled training rows, {answer['episodes']} instances:\n")
    has_optimum, has_hindsight = answer["optimum"] is not None, answer["hindsight"] is not None
    measure = "success rate" if answer["is_rate"] else "value"
    header = ["policy", measure, "collects"]
    header += ["below optimum"] * has_optimum + ["of hindsight"] * has_hindsight
    rows = []
    for entry in answer["policies"]:
        row = [entry["policy"], with_margin(entry["value"], entry["interval"])]
        row.append(f"{entry['collected']:.3f}")
        row += [ends_text(entry["gap_to_optimum"])] if has_optimum else []
        if has_hindsight:
            ratio = entry["competitive_ratio"]
            row.append("" if ratio is None else with_margin(ratio, entry["competitive_ratio_interval"]))
        rows.append(row)
    print_table(console, header, rows)
    _show_differences(answer["differences"], measure, console)
    if has_optimum:
        best = answer["optimum"]
        where = f"{best['lower']:.7f}" if best["method"] == "exact" else f"{best['lower']:.4f} to {best['upper']:.4f}"
        console.print(f"\nThe best any online player can do: {where} ({best['method'].replace('_', ' ')}).")
    if has_hindsight:
        seen = answer["hindsight"]
        told = _seen_text(seen, answer["is_rate"], "instances")
        console.print(f"{told}, 95% interval {ends_text(seen['interval'])}.")


def _seen_text(seen: dict[str, Any], is_rate: bool, where: str) -> str:
    if is_rate:
        return f"An all-seeing player succeeds on {seen['value']:.4f} of {seen['instances']} {where}"
    return f"An all-seeing player earns {seen['value']:.4f} on average over {seen['instances']} {where}"


def _show_differences(differences: list[dict[str, Any]], what: str, console: Any) -> None:
    if differences:
        console.print()
        pairs = [
            [f"{one['policy']} - {one['minus']}", with_margin(one["difference"], one["interval"])]
            for one in differences
        ]
        print_table(console, ["paired difference", f"in {what}"], pairs)


def _show_held_out(held: dict[str, Any], is_rate: bool, console: Any) -> None:
    """The sequences that were kept from learning, before anything that is drawn."""
    span = f"from {held['from']} to {held['to']}"
    console.print(f"{held['sequences']} held-out sequences of {held['arrivals']} arrivals, {span}, as they came:\n")
    has_hindsight, what = held["hindsight"] is not None, "success rate" if is_rate else "value"
    header = ["policy", what, "collects", *["of hindsight"] * has_hindsight]
    rows = []
    for entry in held["policies"]:
        row = [entry["policy"], with_margin(entry["value"], entry["interval"])]
        row.append(with_margin(entry["collected"], entry["collected_interval"]))
        if has_hindsight:
            ratio = entry["competitive_ratio"]
            row.append("" if ratio is None else with_margin(ratio, entry["competitive_ratio_interval"]))
        rows.append(row)
    print_table(console, header, rows)
    _show_differences(held["differences"], what, console)
    if has_hindsight:
        console.print(f"\n{_seen_text(held['hindsight'], is_rate, 'sequences')}.")
