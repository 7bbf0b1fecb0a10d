"""The commands with which a policy leaves the lab: export it, put it in words, and let it decide."""

import json
import sys
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from rampup.cli.options import AsJson, examples
from rampup.cli.progress import work_bar
from rampup.cli.terminal import paper, print_json, print_table, with_margin
from rampup.runtime import set_up

commands = typer.Typer()

READERS = "rampup_policy.py", "rampup_policy.js"
# A rule that differs in one decision of two hundred is what one would say it is.
_IS_RULE = 0.995


@commands.command(
    epilog=examples(
        "rampup export runs/demo -o policy.json",
        "rampup export runs/demo --scheme curl --seed 0 -o policy.json --readers",
        "rampup export runs/van --optimum -o policy.json --json",
    )
)
def export(
    folder: Annotated[str, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write.")],
    scheme: Annotated[str | None, typer.Option(help="Whose policy; by default that of the best.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of which seed; by default of the best.")] = None,
    optimum: Annotated[
        bool, typer.Option("--optimum", help="Bound the best any online player can do; may take minutes.")
    ] = False,
    readers: Annotated[
        bool, typer.Option("--readers", help=f"Put {READERS[0]} and {READERS[1]}, which read it, beside it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a learned policy as a small file with which any program decides.

    The file says what it was trained on, how often it succeeds, and how far that is from the best possible.
    """
    set_up()
    from rampup.exporting import export as exported
    from rampup.runs.files import write_whole
    from rampup.runs.folder import RunFolder

    told = exported(RunFolder.open(folder), out, scheme=scheme, seed=seed, with_optimum=optimum)
    if readers:
        for name in READERS:
            text = resources.files("rampup.portable").joinpath(name).read_bytes()
            write_whole(Path(out).parent / name, text)
    if as_json:
        print_json(told)
        return
    low, high = told["interval"]
    who = f"{told['scheme']}, seed {told['seed']}"
    print(f"{out}: {who}, earns {told['success']:.4f} a game ({low:.4f} to {high:.4f}).")
    gap = told["gap_to_optimum"]
    if gap is not None:
        far = f"{gap[0]:.4f}" if gap[0] == gap[1] else f"{gap[0]:.4f} to {gap[1]:.4f}"
        print(f"The best any online player can do is better by {far}.")


@commands.command(
    epilog=examples(
        "rampup explain policy.json",
        "rampup explain runs/demo/policies/curl-0.json --json",
        "rampup explain policies/curl-0.json --problem my_file.py:MyProblem",
    )
)
def explain(
    policy: Annotated[str, typer.Argument(help="A policy file, exported or not.")],
    own: Annotated[
        str | None, typer.Option("--problem", help="Needed where the policy is for a problem in a file of yours.")
    ] = None,
    episodes: Annotated[int, typer.Option(help="Instances to measure on; best choice needs none.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Decides the instances.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Say what a policy does as a rule, where it is one, and what the rule is worth.

    "Rounded" is the policy that always does what the learned one finds most probable.
    """
    set_up()
    from rampup.checks import make_checked
    from rampup.explaining import explain as explained
    from rampup.portable.rampup_policy import read
    from rampup.problems.own import is_file_and_class
    from rampup.runs.policy_file import read_policy

    document = read(policy)
    name = own or document["problem"]
    if own is None and isinstance(name, str) and is_file_and_class(name):
        # A policy file is data: it does not say what is run.
        raise ValueError(f"the policy is for {name}, a file of yours: say that it may be run with `--problem {name}`.")
    problem = make_checked(name, document["parameters"])
    with work_bar() as tell:
        tell("explaining", 0, 0)
        answer = explained(problem, read_policy(policy, problem), episodes=episodes, seed=seed)
    if as_json:
        print_json(answer)
    else:
        _show_explanation(answer)


def _show_explanation(answer: dict[str, Any]) -> None:
    console, words = paper(markup=False), answer["words"]
    if answer["agreement"] >= _IS_RULE:
        console.print(f"{words[:1].upper()}{words[1:]}.")
    else:
        console.print(f"No rule that we know. The nearest, for {answer['agreement']:.1%} of the decisions: {words}.")
    console.print()
    rows = [["as learned", "learned"], ["rounded", "rounded"], ["the rule", "rule"]]
    table = [[label, with_margin(answer[key]["value"], answer[key]["interval"])] for label, key in rows]
    if answer["optimum"] is not None:
        best = answer["optimum"]
        table.append([f"optimal (reject the first {best['threshold']})", f"{best['value']:.4f}"])
    print_table(console, ["policy", "value"], table)


@commands.command(
    epilog=examples(
        "rampup decide policy.json < arrivals.jsonl",
        "rampup decide policy.json --journal episode.jsonl < arrivals.jsonl",
        """echo '{"record": true}' | rampup decide policy.json --sample --seed 7""",
    )
)
def decide(
    policy: Annotated[str, typer.Argument(help="A file that `rampup export` wrote.")],
    journal: Annotated[
        str | None, typer.Option(help="A file for one episode: a process that crashed goes on with it.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Decide by chance, as the policy says; by default what is most probable.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="With `--sample`: what chance depends on.")] = None,
    from_start: Annotated[
        bool | None,
        typer.Option(
            "--from-start/--from-here",
            help="After a crash: do arrivals begin with the first one again, or go on? By default a file begins again, "
            "a pipe goes on.",
        ),
    ] = None,
) -> None:
    """Answer arrivals, JSON lines on stdin, at once: the decision, its probability, and what is left.

    Best choice: {"record": true} or {"value": 3.2}; knapsack: {"size": 0.3, "value": 0.8}; AdWords: {"bids": [0.4]}.
    An arrival that cannot be answered gets a line with its number and what is wrong, and the next one is served.
    """
    from rampup import decide as deciding
    from rampup.portable.rampup_policy import load

    if seed is not None and not sample:
        raise ValueError("`--seed` is for `--sample`.")
    source = sys.stdin.buffer
    begins_anew = deciding.begins_anew(source) if from_start is None else from_start
    # A line at a time: each is answered before the next one is waited for.
    answers = deciding.serve(
        load(policy), iter(source.readline, b""), is_sampled=sample, seed=seed, journal=journal, from_start=begins_anew
    )
    has_errors = False
    for answer in answers:
        has_errors |= "error" in answer
        print(json.dumps(answer), flush=True)
    if has_errors:
        raise typer.Exit(1)
