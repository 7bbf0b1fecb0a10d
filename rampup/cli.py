"""The command line: the only place that prints. JAX is imported inside the commands, so that --help stays quick."""

import json
import math
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


Setting = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter of the problem, as name=value; may be repeated.")
]


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
            on_progress=on_progress,
        )
    if as_json:
        _print_json(answer)
    else:
        _show_training(answer)


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
