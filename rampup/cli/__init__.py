"""The command line: the only place that prints. JAX is imported inside the commands, so that --help stays quick."""

from rampup.cli import (
    advice,
    bench,
    data,
    deciding,
    evaluation,
    problems,
    reproduce,
    results,
    running,
    sweep,
    theory,
    training,
)
from rampup.cli.app import app, main

__all__ = ["app", "main"]

# Every group of commands, in the order of --help: a new file of commands is added here and nowhere else.
for group in (problems, data, evaluation, advice, training, running, results, reproduce, sweep, deciding, bench):
    app.add_typer(group.commands)
app.add_typer(theory.commands, name="theory")
