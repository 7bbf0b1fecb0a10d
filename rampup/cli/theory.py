"""The commands about exact answers and closed forms."""

from typing import Annotated, Any

import typer

from rampup.cli.options import (
    AsJson,
    FeaturesOption,
    ProblemArgument,
    ProblemOption,
    Series,
    SeriesShortcut,
    Setting,
    examples,
    only_one,
    parameters,
    with_series,
)
from rampup.cli.progress import tracked, work_bar
from rampup.cli.terminal import paper, print_json, print_table, short
from rampup.runtime import set_up

commands = typer.Typer(help="Exact answers and closed forms of the paper.", no_args_is_help=True)


@commands.command(
    "bcp",
    epilog=examples(
        "rampup theory bcp --n 100 --sampler-threshold 0.2 --features one_hot --json",
        "rampup theory bcp --series series.json --features monomial:10",
    ),
)
def theory_bcp(
    n: Annotated[int | None, typer.Option("--n", help="Number of arrivals; a series file brings its own.")] = None,
    series: Series = "classical",
    sampler_threshold: Annotated[
        str,
        typer.Option(help="q: the curriculum's sampler lets floor(n q) arrivals pass, then takes the first record."),
    ] = "0.3",
    features: FeaturesOption = "one_hot",
    as_json: AsJson = False,
) -> None:
    """The best choice problem: optimal policy and value, and kappa of the curriculum's and the naive sampler.

    Kappa is taken at theta = 0, grafted sampler against the optimal policy; k_curl and k_naive are the closed forms of
    Theorem 2. A number too large for a double is null in JSON: its logarithm is given beside it.
    """
    set_up()
    from rampup.stories import bcp_theory

    answer = bcp_theory(n, series, sampler_threshold, features)
    if as_json:
        print_json(answer)
    else:
        _show_bcp(answer)


def _show_bcp(answer: dict[str, Any]) -> None:
    wins = f"{100 * answer['optimal_value']:.4f}%"
    console = paper()
    console.print(
        f"Of {answer['n']} arrivals let [bold]{answer['optimal_threshold']}[/] pass, then take the first that is the "
        f"best so far: that wins [bold]{wins}[/] of the games, and nothing wins more."
    )
    print_table(
        console,
        ["sampler", "lets pass", "ln kappa", "ln k (Theorem 2)"],
        [
            ["curriculum", answer["sampler_count"], short(answer["ln_kappa_curl"]), short(answer["ln_k_curl"])],
            ["naive", "a coin each time", short(answer["ln_kappa_naive"]), short(answer["ln_k_naive"])],
        ],
    )


@commands.command("growth", epilog=examples("rampup theory growth", "rampup theory growth --n 10 --n 1000000 --json"))
def theory_growth(
    n: Annotated[list[int] | None, typer.Option("--n", help="A size; may be repeated.")] = None,
    warmup: Annotated[int, typer.Option(help="The small problem whose optimal policy becomes the sampler.")] = 10,
    features: FeaturesOption = "one_hot",
    as_json: AsJson = False,
) -> None:
    """How kappa grows with n: exponentially for the naive sampler, hardly at all for the curriculum's."""
    set_up()
    from rampup.stories import bcp_growth

    answer = bcp_growth(tracked(n or [10, 20, 50, 100, 1_000, 10_000, 100_000], "sizes"), warmup, features)
    if as_json:
        print_json(answer)
    else:
        _show_growth(answer)


def _show_growth(answer: dict[str, Any]) -> None:
    console = paper()
    console.print(
        f"The best choice problem, exactly. Warm-up on n = {answer['warmup']}: the optimal policy there lets "
        f"{answer['warmup_threshold']} pass, and becomes the curriculum's sampler for every larger n."
    )
    print_table(
        console,
        ["n", "optimal: let pass", "wins", "ln kappa, naive sampler", "ln kappa, curriculum's"],
        [
            [
                f"{row['n']:,}",
                f"{row['optimal_threshold']:,}",
                f"{row['optimal_value']:.7f}",
                short(row["ln_kappa_naive"]),
                short(row["ln_kappa_curl"]),
            ]
            for row in answer["rows"]
        ],
    )
    console.print(
        "Kappa governs how many samples learning needs (Theorem 1): one small warm-up takes the exponential away."
    )


@commands.command(
    "bound",
    epilog=examples(
        "rampup theory bound --set n=20 --scheme direct --iterations 200",
        "rampup theory bound --set n=100 --scheme fix_samp_curl --warmup n=10 --json",
    ),
)
def theory_bound(
    settings: Setting = None,
    series: SeriesShortcut = None,
    scheme: Annotated[str, typer.Option(help="direct, naive_samp, curl, fix_samp_curl, or with _reg.")] = "direct",
    warmup: Annotated[
        list[str] | None, typer.Option(help="A parameter in which the warm-up differs, name=value.")
    ] = None,
    iterations: Annotated[int, typer.Option(help="Updates the theorem is held against.")] = 100,
    warmup_iterations: Annotated[int | None, typer.Option(help="Updates before; as many by default.")] = None,
    seed: Annotated[int, typer.Option(help="As for train: the same run.")] = 0,
    features: Annotated[str, typer.Option("--features", help="one_hot, monomial:D0 or legendre:D0.")] = "monomial:10",
    learning_rate: Annotated[float, typer.Option(help="eta.")] = 0.2,
    lanes: Annotated[int, typer.Option(help="N.")] = 100,
    radius: Annotated[float, typer.Option(help="G.")] = 10.0,
    regularisation: Annotated[float, typer.Option(help="lambda of the _reg schemes.")] = 0.01,
    estimator: Annotated[str, typer.Option(help="algorithm4, paired, or exact.")] = "algorithm4",
    as_json: AsJson = False,
) -> None:
    """Theorem 1 held against a run on the best choice problem: each term of the bound, and which one dominates.

    The first line bounds the gap min_t V* - V^t by the measured fitting errors, the second by kappa and the losses.
    """
    set_up()
    from rampup.stories import bcp_bound

    with work_bar() as tell:
        tell("training", 0, 0)
        answer = bcp_bound(
            with_series(parameters("--set", settings), series),
            parameters("--warmup", warmup),
            scheme,
            iterations=iterations,
            warmup_iterations=warmup_iterations,
            seed=seed,
            features=features,
            regularisation=regularisation,
            learning_rate=learning_rate,
            num_lanes=lanes,
            radius=radius,
            estimator=estimator,
        )
    if as_json:
        print_json(answer)
    else:
        _show_bound(answer)


def _show_bound(answer: dict[str, Any]) -> None:
    console = paper()
    names = {
        "initial": "what is left of Phi(pi_0)",
        "smoothness": "eta B^2 G^2 / 2",
        "fitting": "average of err_t (first line)",
        "transfer": "sqrt(H eps_bias) (second line)",
        "statistical": "sqrt(H kappa eps_stat) (second line)",
    }
    rows = [[name, names[name], short(value)] for name, value in answer["terms"].items()]
    rows += [["first line", "", short(answer["first_line"])], ["second line", "", short(answer["second_line"])]]
    print_table(console, ["term", "", "size"], rows)
    console.print(
        f"The gap after {answer['updates']} updates is {answer['gap']:.4f}; the largest term of the second line is "
        f"[bold]{answer['dominant']}[/]."
    )


@commands.command(
    "samples",
    epilog=examples(
        "rampup theory samples bcp --set n=100 --excess-risk 0.1",
        "rampup theory samples okd --set n=10 --set B=1 --set V=2 --excess-risk 0.1 --json",
    ),
)
def theory_samples(
    problem: ProblemArgument = None,
    own: ProblemOption = None,
    settings: Setting = None,
    series: SeriesShortcut = None,
    excess_risk: Annotated[float, typer.Option(help="eps_stat, what the loss may exceed its least by.")] = 0.1,
    failure_prob: Annotated[float, typer.Option(help="The chance that some update fails to keep it.")] = 0.05,
    iterations: Annotated[int, typer.Option(help="Updates that must all keep it.")] = 1000,
    features: Annotated[str | None, typer.Option("--features", help="one_hot, monomial:D0 or legendre:D0.")] = None,
    radius: Annotated[float, typer.Option(help="G.")] = 10.0,
    clip: Annotated[float, typer.Option(help="U.")] = 15.0,
    regularisation: Annotated[float, typer.Option(help="lambda.")] = 0.0,
    fixed_sampler: Annotated[bool, typer.Option(help="Whether a fixed sampler rolls in.")] = False,
    as_json: AsJson = False,
) -> None:
    """How many lanes N the concentration lemma asks for: as printed, and with its proof repaired."""
    set_up()
    from rampup.stories import samples_needed

    answer = samples_needed(
        only_one(problem, own),
        with_series(parameters("--set", settings), series),
        features,
        excess_risk=excess_risk,
        failure_prob=failure_prob,
        updates=iterations,
        radius=radius,
        clip=clip,
        regularisation=regularisation,
        is_fixed=fixed_sampler,
    )
    if as_json:
        print_json(answer)
        return
    print(f"N = {answer['lemma']:.4g} by the lemma as printed; {answer['uniform']:.4g} uniformly over the ball.")
