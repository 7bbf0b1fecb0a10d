"""The application itself: how it is called, how it fails, and how it sets up JAX."""

import sys

import typer

from rampup.cli.options import examples

app = typer.Typer(
    name="rampup",
    help="Policies for decisions that arrive one at a time and cannot be taken back.",
    epilog=examples(
        "rampup problems", "rampup theory growth", "rampup train bcp --set n=100 --scheme curl --warmup n=10"
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def main() -> None:
    """Run the command line: a user's mistake is one line on stderr and exit code 2, a traceback is a bug of ours."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away (as `head` does); Python must not complain of it again at exit.
        sys.stdout = None
        sys.exit(0)
    except Exception as error:
        fail_with(error)


def fail_with(error: Exception) -> None:
    """Leave with one line on stderr, if an error is a user's mistake; else it goes on."""
    if isinstance(error, ValueError | FloatingPointError):
        _fail(str(error))
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        _fail(
            "there is not enough memory for this: take fewer lanes (trainer.num_lanes, --lanes), fewer branch "
            "steps (trainer.steps_per_iteration), fewer episodes (trainer.effort.episodes) or a smaller problem."
        )
    # Typer's own errors (an unknown option, a missing value) say what is wrong through this method.
    say = getattr(error, "format_message", None)
    if say is None:
        raise error
    _fail(say())


def _fail(message: str) -> None:
    if not message:
        # No command at all: the help was printed instead.
        sys.exit(0)
    print(f"rampup: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
