"""Writes docs/commands.md from the command line itself: every command, its options, their defaults and its examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from rampup.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"

HEAD = """\
# Commands

<!-- Written by scripts/commands_page.py from the command line itself; `make docs` writes it anew. -->

`--help` after any command says the same. A mistake is one line on stderr and exit code 2; Ctrl-C is exit code 130. With
`--json` a command prints one JSON document and nothing else.
"""


def commands(group: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """All commands below a group with their full names, those of groups inside it at their place."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        else:
            yield " ".join((*names, name)), command


def page() -> str:
    """The whole page."""
    found = list(commands(get_command(app), ("rampup",)))
    contents = [f"| [{name}](#{name.replace(' ', '-')}) | {cell(sentence(command))} |" for name, command in found]
    parts = [HEAD, "\n".join(["| command | what it does |", "|---|---|", *contents]) + "\n"]
    return "\n".join([*parts, *(section(name, command) for name, command in found)])


def section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if is_argument(one)]
    options = [one for one in command.params if not is_argument(one) and not getattr(one, "hidden", False)]
    usage = " ".join([name, *(placeholder(one) for one in arguments), *["[OPTIONS]"] * bool(options)])
    # A bar would end a cell of the table.
    names = [placeholder(one).replace("|", " or ") for one in arguments]
    rows = [f"| `{name}` | {default(one)} | {cell(one.help)} |" for name, one in zip(names, arguments, strict=True)]
    rows += [f"| {flags(one)} | {default(one)} | {cell(one.help)} |" for one in options]
    table = ["", "| name | default | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"## {name}", "", command.help.strip(), "", f"    {usage}", *table, *examples(command), ""])


def is_argument(parameter: Any) -> bool:
    return not parameter.opts[0].startswith("-")


def placeholder(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def flags(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    return names + "".join(f" / `{name}`" for name in option.secondary_opts)


def default(parameter: Any) -> str:
    """The default in words; an option without one is off, empty, or decided elsewhere, as its help says."""
    value = parameter.default() if callable(parameter.default) else parameter.default
    if value is None or value is False or value == ():
        return "required" if parameter.required else ""
    return "on" if value is True else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def examples(command: Any) -> list[str]:
    lines = [line for line in (command.epilog or "").splitlines() if line and line != "Examples:"]
    return ["", "Examples:", "", *(f"    {line}" for line in lines)] if lines else []


def sentence(command: Any) -> str:
    return command.help.strip().split("\n\n")[0]


def cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE)
