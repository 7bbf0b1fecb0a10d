"""The command line: the only place that prints. JAX is imported inside the commands, so that --help stays quick."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer


def _examples(*lines: str) -> str:
    """A help epilog; blank lines keep the examples apart."""
    return "\n\n".join(["Examples:", *lines])


app = typer.Typer(
    name="rampup",
    help="Policies for decisions that arrive one at a time and cannot be taken back.",
    epilog=_examples(
        "rampup problems", "rampup theory growth", "rampup train bcp --set n=100 --scheme curl --warmup n=10"
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
theory_app = typer.Typer(help="Exact answers and closed forms of the paper.", no_args_is_help=True)
app.add_typer(theory_app, name="theory")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Series = Annotated[str, typer.Option(help="classical, random:SEED, or a JSON file with the list P_1..P_n.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter of the problem, as name=value; may be repeated.")
]
SeriesShortcut = Annotated[
    str | None, typer.Option(help="bcp: classical, random:SEED, or a JSON file; the same as --set series=...")
]
FeaturesOption = Annotated[str, typer.Option("--features", help="one_hot, monomial:D0 or legendre:D0.")]


def main() -> None:
    """Run the command line: a user's mistake is one line on stderr and exit code 2, a traceback is a bug of ours."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except (ValueError, FloatingPointError) as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away (as `head` does); Python must not complain of it again at exit.
        sys.stdout = None
        sys.exit(0)
    except Exception as error:
        # Typer's own errors (an unknown option, a missing value) say what is wrong through this method.
        say = getattr(error, "format_message", None)
        if say is None:
            raise
        _fail(say())


def _fail(message: str) -> None:
    if not message:
        # No command at all: the help was printed instead.
        sys.exit(0)
    print(f"rampup: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def _configure_jax() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    # Batched factorisations of two programs in flight would block each other for ever on the thread pool of two cores.
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def _print_json(document: Any) -> None:
    print(json.dumps(_plain(document), allow_nan=False))


def _plain(value: Any) -> Any:
    """Make a value fit for JSON: infinite numbers become the strings "inf" and "-inf"."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


@app.command(epilog=_examples("rampup problems", "rampup problems --json"))
def problems(as_json: AsJson = False) -> None:
    """List the problems, their parameters, distributions and features."""
    from rampup.catalogue import catalogue

    entries = catalogue()
    if as_json:
        _print_json(entries)
    else:
        _show_catalogue(entries)


def _show_catalogue(entries: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "problem", "what it is", "parameters", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0)
    )
    for entry in entries["problems"]:
        parameters = ", ".join(
            name if default is None else f"{name}={default}" for name, default in entry["parameters"].items()
        )
        table.add_row(entry["name"], entry["about"], parameters)
    console = Console()
    console.print(table)
    console.print("distributions: " + ", ".join(entries["distributions"]))
    console.print("series (bcp):  " + ", ".join(entries["series"]))
    console.print("features:      " + ", ".join(entries["features"]))


@theory_app.command(
    "bcp",
    epilog=_examples(
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
    _configure_jax()
    from rampup.stories import bcp_theory

    answer = bcp_theory(n, series, sampler_threshold, features)
    if as_json:
        _print_json(answer)
    else:
        _show_bcp(answer)


def _show_bcp(answer: dict[str, Any]) -> None:
    from rich.console import Console

    wins = f"{100 * answer['optimal_value']:.4f}%"
    console = Console(highlight=False)
    console.print(
        f"Of {answer['n']} arrivals let [bold]{answer['optimal_threshold']}[/] pass, then take the first that is the "
        f"best so far: that wins [bold]{wins}[/] of the games, and nothing wins more."
    )
    _print_table(
        console,
        ["sampler", "lets pass", "ln kappa", "ln k (Theorem 2)"],
        [
            ["curriculum", answer["sampler_count"], _short(answer["ln_kappa_curl"]), _short(answer["ln_k_curl"])],
            ["naive", "a coin each time", _short(answer["ln_kappa_naive"]), _short(answer["ln_k_naive"])],
        ],
    )


@theory_app.command(
    "growth", epilog=_examples("rampup theory growth", "rampup theory growth --n 10 --n 1000000 --json")
)
def theory_growth(
    n: Annotated[list[int] | None, typer.Option("--n", help="A size; may be repeated.")] = None,
    warmup: Annotated[int, typer.Option(help="The small problem whose optimal policy becomes the sampler.")] = 10,
    features: FeaturesOption = "one_hot",
    as_json: AsJson = False,
) -> None:
    """How kappa grows with n: exponentially for the naive sampler, hardly at all for the curriculum's."""
    _configure_jax()
    from rampup.stories import bcp_growth

    answer = bcp_growth(_tracked(n or [10, 20, 50, 100, 1_000, 10_000, 100_000], "sizes"), warmup, features)
    if as_json:
        _print_json(answer)
    else:
        _show_growth(answer)


def _show_growth(answer: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(
        f"The best choice problem, exactly. Warm-up on n = {answer['warmup']}: the optimal policy there lets "
        f"{answer['warmup_threshold']} pass, and becomes the curriculum's sampler for every larger n."
    )
    _print_table(
        console,
        ["n", "optimal: let pass", "wins", "ln kappa, naive sampler", "ln kappa, curriculum's"],
        [
            [
                f"{row['n']:,}",
                f"{row['optimal_threshold']:,}",
                f"{row['optimal_value']:.7f}",
                _short(row["ln_kappa_naive"]),
                _short(row["ln_kappa_curl"]),
            ]
            for row in answer["rows"]
        ],
    )
    console.print(
        "Kappa governs how many samples learning needs (Theorem 1): one small warm-up takes the exponential away."
    )


@theory_app.command(
    "bound",
    epilog=_examples(
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
    _configure_jax()
    from rampup.stories import bcp_bound

    with _work_bar() as tell:
        tell("training", 0, 0)
        answer = bcp_bound(
            _with_series(_parameters("--set", settings), series),
            _parameters("--warmup", warmup),
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
        _print_json(answer)
    else:
        _show_bound(answer)


def _show_bound(answer: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    names = {
        "initial": "what is left of Phi(pi_0)",
        "smoothness": "eta B^2 G^2 / 2",
        "fitting": "average of err_t (first line)",
        "transfer": "sqrt(H eps_bias) (second line)",
        "statistical": "sqrt(H kappa eps_stat) (second line)",
    }
    rows = [[name, names[name], _short(value)] for name, value in answer["terms"].items()]
    rows += [["first line", "", _short(answer["first_line"])], ["second line", "", _short(answer["second_line"])]]
    _print_table(console, ["term", "", "size"], rows)
    console.print(
        f"The gap after {answer['updates']} updates is {answer['gap']:.4f}; the largest term of the second line is "
        f"[bold]{answer['dominant']}[/]."
    )


@theory_app.command(
    "samples",
    epilog=_examples(
        "rampup theory samples bcp --set n=100 --excess-risk 0.1",
        "rampup theory samples okd --set n=10 --set B=1 --set V=2 --excess-risk 0.1 --json",
    ),
)
def theory_samples(
    problem: Annotated[str, typer.Argument(help="bcp, okd or adw.")],
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
    _configure_jax()
    from rampup.stories import samples_needed

    answer = samples_needed(
        problem,
        _with_series(_parameters("--set", settings), series),
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
        _print_json(answer)
        return
    print(f"N = {answer['lemma']:.4g} by the lemma as printed; {answer['uniform']:.4g} uniformly over the ball.")


@app.command(
    epilog=_examples(
        "rampup evaluate okd --set n=100 --set B=10 --set V=25 --policy bang_per_buck --policy greedy --optimum",
        "rampup evaluate bcp --set n=100 --policy optimal --policy threshold:30 --policy policies/curl-0.json",
        "rampup evaluate adw --set n=10 --set m=20 --set V=9 --policy msvv --policy balance --hindsight 200 "
        "--picture comparison.png",
    )
)
def evaluate(
    problem: Annotated[str, typer.Argument(help="bcp, okd or adw.")],
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
    """Set policies side by side on the same instances: success rates, intervals, distance to the best possible."""
    _configure_jax()
    from rampup.evaluation import evaluate as evaluation_of
    from rampup.problems import make
    from rampup.references import policy_named
    from rampup.report.comparison import checked_picture_name, draw_comparison

    if picture is not None:
        checked_picture_name(picture)
    one = make(problem, **_with_series(_parameters("--set", settings), series))
    if not policies:
        raise ValueError("give at least one `--policy`.")
    with _work_bar() as tell:
        chosen = {}
        for name in policies:
            if name in chosen:
                raise ValueError(f"`--policy` was given twice for {name!r}.")
            tell(f"preparing {name}", 0, 0)
            chosen[name] = policy_named(one, name)
        with _native_output_on_stderr():
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
        _print_json(answer)
    else:
        _show_evaluation(answer)


@contextmanager
def _native_output_on_stderr() -> Iterator[None]:
    """Keep stdout for our own words: HiGHS now and then prints a line of its debugging there."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _show_evaluation(answer: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    has_optimum, has_hindsight = answer["optimum"] is not None, answer["hindsight"] is not None
    header = ["policy", "success rate", "collects"]
    header += ["below optimum"] * has_optimum + ["of hindsight"] * has_hindsight
    rows = []
    for entry in answer["policies"]:
        row = [entry["policy"], _with_margin(entry["value"], entry["interval"]), f"{entry['collected']:.3f}"]
        row += [_range(entry["gap_to_optimum"])] if has_optimum else []
        if has_hindsight:
            ratio = entry["competitive_ratio"]
            row.append("" if ratio is None else _with_margin(ratio, entry["competitive_ratio_interval"]))
        rows.append(row)
    _print_table(console, header, rows)
    if answer["differences"]:
        console.print()
        pairs = [
            [f"{one['policy']} - {one['minus']}", _with_margin(one["difference"], one["interval"])]
            for one in answer["differences"]
        ]
        _print_table(console, ["paired difference", "in success rate"], pairs)
    if has_optimum:
        best = answer["optimum"]
        where = f"{best['lower']:.7f}" if best["method"] == "exact" else f"{best['lower']:.4f} to {best['upper']:.4f}"
        console.print(f"\nThe best any online player can do: {where} ({best['method'].replace('_', ' ')}).")
    if has_hindsight:
        seen = answer["hindsight"]
        console.print(
            f"An all-seeing player succeeds on {seen['value']:.4f} of {seen['instances']} instances, 95% interval "
            f"{_range(seen['interval'])}."
        )


def _with_margin(estimate: float, interval: list[float]) -> str:
    """An estimate with half the width of its 95% interval."""
    return f"{estimate:.4f} ± {(interval[1] - interval[0]) / 2:.4f}"


def _range(ends: list[float]) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f}"


@app.command(
    epilog=_examples(
        "rampup advise bcp --set n=100",
        "rampup advise bcp --set n=100 --series series.json --json",
        "rampup advise okd --set n=100 --set B=10 --set V=25 --warmup n=10 --warmup B=1 --warmup V=2",
    )
)
def advise(
    problem: Annotated[str, typer.Argument(help="bcp, okd or adw.")],
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
        str | None, typer.Option("--features", help="In whose span kappa is taken; bcp: one_hot, else monomial:3.")
    ] = None,
    budget: Annotated[float, typer.Option(help="Samples beyond which a plan is hopeless.")] = 1e9,
    seed: Annotated[int, typer.Option(help="Where kappa is sampled.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Does a curriculum pay, and with which warm-up? Kappa of candidate samplers, before any training."""
    _configure_jax()
    from rampup.stories import advice

    with _work_bar() as tell:
        answer = advice(
            problem,
            _with_series(_parameters("--set", settings), series),
            _parameters("--warmup", warmup),
            policies or [],
            features=features,
            budget=budget,
            seed=seed,
            on_progress=tell,
        )
    if as_json:
        _print_json(answer)
    else:
        _show_advice(answer)


def _show_advice(answer: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    warmup = answer["warmup"] and ", ".join(f"{name} = {value:g}" for name, value in answer["warmup"].items())
    console.print(f"[bold]{answer['recommend']}[/]" + (f", warm-up on {warmup}" if warmup else ""))
    console.print(answer["why"] + "\n")
    rows = [
        [
            one["sampler"],
            _short(one["ln_kappa"]),
            "" if one["ln_kappa_warmup"] is None else _short(one["ln_kappa_warmup"]),
            _short(one["ln_samples"]),
        ]
        for one in answer["candidates"]
    ]
    _print_table(console, ["sampler", "ln kappa", "ln kappa of the warm-up", "ln samples, about"], rows)


def _with_series(parameters: dict[str, Any], series: str | None) -> dict[str, Any]:
    if series is None:
        return parameters
    if "series" in parameters:
        raise ValueError("`series` was given twice.")
    return parameters | {"series": series}


@app.command(
    epilog=_examples(
        "rampup train bcp --set n=100 --scheme curl --warmup n=10 --iterations 400 --seeds 8 --json",
        "rampup train okd --set n=100 --set B=10 --set V=25 --scheme curl --scheme direct "
        "--warmup n=10 --warmup B=1 --warmup V=2",
    )
)
def train(
    problem: Annotated[str, typer.Argument(help="bcp, okd or adw.")],
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
    record_every: Annotated[int, typer.Option(help="Updates between two recorded rows.")] = 100,
    reference: Annotated[
        str | None, typer.Option(help="A rule or a policy file to measure against; see evaluate --policy.")
    ] = None,
    save: Annotated[str | None, typer.Option(help="A folder for the policies, one SCHEME-SEED.json a run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train policies: all schemes and seeds as one batch."""
    _configure_jax()
    from rampup.learn.session import train_session

    with _progress_bar() as on_progress:
        answer = train_session(
            problem,
            _parameters("--set", settings),
            _parameters("--warmup", warmup),
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
            record_every=record_every,
            reference=reference,
            save=save,
            on_progress=on_progress,
        )
    if as_json:
        _print_json(answer)
    else:
        _show_training(answer)


@app.command(epilog=_examples("rampup experiments", "rampup experiments --json"))
def experiments(as_json: AsJson = False) -> None:
    """List the experiments that come with Rampup."""
    from rampup import config

    entries = [
        {"name": name, "about": one.about, "schemes": one.schemes, "presets": ["paper", "quick"]}
        for name in config.shipped_names()
        for one in [config.load(name)]
    ]
    if as_json:
        _print_json(entries)
        return
    from rich.console import Console

    _print_table(Console(highlight=False), ["experiment", "about"], [[one["name"], one["about"]] for one in entries])


ExperimentName = Annotated[str, typer.Argument(help="The name of an experiment, or the path of a YAML file.")]
Preset = Annotated[str, typer.Option(help="paper (full size), quick (about a minute), or one of your own file.")]
Override = Annotated[
    list[str] | None, typer.Option("--set", help="Any leaf of the config, as key.inside=value; may be repeated.")
]


@app.command(
    epilog=_examples("rampup show bcp-classical --preset quick", "rampup show okd-uniform --set trainer.num_lanes=50")
)
def show(experiment: ExperimentName, preset: Preset = "paper", overrides: Override = None) -> None:
    """Print the resolved config of an experiment, every default spelled out."""
    from rampup import config

    print(config.as_yaml(config.load(experiment, preset=preset, overrides=overrides or [])), end="")


@app.command(
    epilog=_examples(
        "rampup run bcp-classical --preset quick --out runs/demo",
        "rampup run bcp-classical --preset quick --scheme curl --seeds 4 --set trainer.iterations=500",
        "rampup run my_experiment.yaml --out runs/mine --json",
    )
)
def run(
    experiment: ExperimentName,
    preset: Preset = "paper",
    out: Annotated[str | None, typer.Option(help="The folder of the run; by default runs/NAME-TIME.")] = None,
    schemes: Annotated[list[str] | None, typer.Option("--scheme", help="Only this scheme; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds: 0, 1, and so on.")] = None,
    overrides: Override = None,
    as_json: AsJson = False,
) -> None:
    """Train all schemes and seeds of an experiment together, into a folder that survives anything."""
    _configure_jax()
    from rampup import conductor, config

    changes = list(overrides or [])
    changes += [f"schemes={json.dumps(schemes)}"] if schemes else []
    changes += [f"seeds={seeds}"] if seeds is not None else []
    resolved = config.load(experiment, preset=preset, overrides=changes)
    folder = conductor.begin(resolved, out or os.path.join("runs", conductor.folder_name(resolved)))
    _conduct(folder, as_json)


@app.command(epilog=_examples("rampup resume runs/demo"))
def resume(
    folder: Annotated[str, typer.Argument(help="The folder of a run that was interrupted.")], as_json: AsJson = False
) -> None:
    """Go on with an interrupted run, to the same result as if nothing had happened."""
    _configure_jax()
    from rampup.runs.folder import RunFolder

    _conduct(RunFolder.open(folder), as_json)


def _conduct(folder: Any, as_json: bool) -> None:
    """Train a run with its progress on the screen; Ctrl-C saves and stops, a second one stops at once."""
    import signal

    from rampup import conductor

    asked = []

    def ask(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("rampup: saving, then stopping; once more stops at once", file=sys.stderr)

    before = signal.signal(signal.SIGINT, ask)
    try:
        with _run_display() as on_standing:
            summary = conductor.conduct(folder, on_standing=on_standing, should_stop=lambda: bool(asked))
    finally:
        signal.signal(signal.SIGINT, before)
    if summary is not None:
        from rampup.report.figures import save_figures
        from rampup.report.page import write_report

        save_figures(folder)
        write_report([folder], folder.path / "report.html")
    if summary is None:
        print(f"rampup: saved; go on with `{folder.resume_command}`", file=sys.stderr)
        sys.exit(130)
    if as_json:
        _print_json(summary | {"folder": str(folder.path)})
    else:
        _show_run(summary, str(folder.path))


@contextmanager
def _run_display() -> Iterator[Callable[[Any], None]]:
    """The progress of a run on stderr, where somebody is looking: a bar, and a line for every scheme."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Table

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda standing: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%")
    bar = Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console)
    task = bar.add_task("compiling", total=None)
    latest: dict[str, dict[str, Any]] = {}

    def picture() -> Any:
        table = Table("scheme", "stage", "iteration", "samples", "value", "ln kappa", box=None, header_style="bold")
        for name, row in latest.items():
            cells = row["stage"], row["iteration"], f"{row['samples']:,}", f"{row['value']:.4f}"
            table.add_row(name, *map(str, cells), _short(row["ln_kappa"]))
        return Group(bar, table)

    with Live(picture(), console=console, transient=True, refresh_per_second=8) as live:

        def tell(standing: Any) -> None:
            latest.update({row["scheme"]: row for row in standing.rows})
            text = f"{standing.samples_per_second:,.0f} samples/s"
            bar.update(task, completed=standing.done, total=standing.total, description=text)
            live.update(picture())

        yield tell


def _show_run(summary: dict[str, Any], folder: str) -> None:
    from rich.console import Console

    # Names are shown as they are: brackets and colons in them are no markup.
    console = Console(highlight=False, markup=False, emoji=False)
    best = summary["optimal_value"]
    header = ["scheme", "value", "of the optimum" if best else f"of {summary['reference']}", "ln kappa", "samples"]
    against = best or summary["reference_value"]
    rows = [
        [
            one["scheme"],
            _with_margin(one["value"], one["interval"]),
            f"{one['value'] / against:.1%}" if against else "",
            "inf" if one["ln_kappa"] is None else _short(one["ln_kappa"]),
            f"{one['samples']:,}",
        ]
        for one in summary["schemes"]
    ]
    _print_table(console, header, rows)
    optimum = f", the optimum {best:.4f}" if best else ""
    console.print(
        f"{summary['reference']} earns {summary['reference_value']:.4f}{optimum}. Everything is in {folder}; open "
        f"{os.path.join(folder, 'report.html')} in a browser.",
        soft_wrap=True,
    )


@app.command(
    epilog=_examples("rampup report runs/demo -o report.html", "rampup report runs/one runs/two -o comparison.html")
)
def report(
    folders: Annotated[list[str], typer.Argument(help="The folders of one run, or of several to compare.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="The page; by default report.html in the first folder.")
    ] = None,
) -> None:
    """Write one HTML page about runs that needs nothing else: verdict, curves, pictures of the policies, theory."""
    from rampup.report.page import write_report
    from rampup.runs.folder import RunFolder

    opened = [RunFolder.open(folder) for folder in folders]
    path = out or os.path.join(folders[0], "report.html")
    write_report(opened, path)
    print(path)


@app.command(
    epilog=_examples("rampup runs", "rampup runs --folder runs --experiment bcp-classical", "rampup runs --json")
)
def runs(
    folder: Annotated[str, typer.Option(help="Where to look for runs.")] = "runs",
    experiment: Annotated[str | None, typer.Option(help="Only runs of this experiment.")] = None,
    scheme: Annotated[str | None, typer.Option(help="Only this scheme.")] = None,
    finished: Annotated[bool | None, typer.Option(help="Only finished runs, or only unfinished ones.")] = None,
    as_json: AsJson = False,
) -> None:
    """List runs and compare what came of them, the best first."""
    from rampup.runs.listing import listing

    entries = listing(folder, experiment=experiment, scheme=scheme, finished=finished)
    if as_json:
        _print_json(entries)
        return
    from rich.console import Console

    rows = [
        [
            one["folder"],
            one["experiment"],
            one["scheme"],
            "" if one["value"] is None else f"{one['value']:.4f}",
            "" if one["samples"] is None else f"{one['samples']:,}",
            "finished" if one["is_finished"] else f"{one['progress']:.0%}",
        ]
        for one in entries
    ]
    console = Console(highlight=False, markup=False, emoji=False)
    _print_table(console, ["folder", "experiment", "scheme", "value", "samples", "state"], rows)


def _parameters(option: str, given: list[str] | None) -> dict[str, Any]:
    """Read name=value pairs; a value is JSON where it can be (a number, a list, an object), else a string."""
    parameters = {}
    for pair in given or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"`{option}` takes name=value, got {pair!r}.")
        if name in parameters:
            raise ValueError(f"`{option}` was given twice for {name!r}.")
        try:
            parameters[name] = json.loads(text)
        except ValueError:
            parameters[name] = text
    return parameters


@contextmanager
def _progress_bar() -> Iterator[Callable[[Any], None]]:
    """A bar on stderr with the latest value of the first run, where somebody is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("compiling", total=None)

        def show(progress: Any) -> None:
            row = progress.latest[0]
            text = f"{row['scheme']} stage {row['stage']} iteration {row['iteration']} value {row['value']:.4f}"
            bar.update(task, completed=progress.done, total=progress.total, description=text)

        yield show


@contextmanager
def _work_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr for work of several kinds, where somebody is looking; a total of 0 is work of unknown length."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield tell


def _show_training(answer: dict[str, Any]) -> None:
    from rich.console import Console

    rows = [
        [
            run["scheme"],
            run["seed"],
            f"{run['value']:.4f}",
            f"{run['reference_value']:.4f}",
            "" if run["optimal_value"] is None else f"{run['optimal_value']:.4f}",
            _short(run["ln_kappa"]),
            f"{run['avg_err']:.4f}",
            f"{run['samples']:,}",
        ]
        for run in answer["runs"]
    ]
    header = ["scheme", "seed", "value", answer["reference"], "optimum", "ln kappa", "avg err", "samples"]
    _print_table(Console(highlight=False), header, rows)


def _tracked(items: list[Any], name: str) -> Iterable[Any]:
    """Show progress through the items on stderr, where somebody is looking."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, description=name, console=console, transient=True, disable=not console.is_terminal)


def _print_table(console: Any, header: list[str], rows: list[list[Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)


def _short(number: float) -> str:
    return "inf" if math.isinf(number) else f"{number:,.4f}"
