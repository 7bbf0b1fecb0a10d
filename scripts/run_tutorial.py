"""Does what the tutorials of docs/ say, each in a folder of its own, and writes what was printed into the page."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES = "tutorial.md", "from-csv.md"
BLOCK = re.compile(r"```(?:\w+ title=\"(?P<file>[\w.]+)\"|console)\n(?P<text>.*?)```", re.DOTALL)


def done(page: str, folder: Path) -> str:
    """The page with today's outputs, after writing its files and running its commands in a folder, in order."""

    def block(found: re.Match) -> str:
        if found["file"]:
            (folder / found["file"]).write_text(found["text"])
            return found[0]
        steps = re.split(r"^(?=\$ )", found["text"], flags=re.MULTILINE)[1:]
        return "```console\n" + "".join(step_done(step, folder) for step in steps) + "```"

    return BLOCK.sub(block, page)


def step_done(step: str, folder: Path) -> str:
    """A command, which may go on over lines that end in a backslash, and what it prints."""
    command = re.match(r"\$ (?:.*\\\n)*.*\n", step)[0]
    printed = run(command.removeprefix("$ "), folder)
    shown = step.removeprefix(command).splitlines()
    if "..." not in shown:
        shown_anew = printed.splitlines()
        wrong = [line for line in shown if line.strip() and not like(line, shown_anew)]
    else:
        shown_anew = [line if line.strip() in ("", "...") else like(line, printed.splitlines()) for line in shown]
        wrong = [line for line, new in zip(shown, shown_anew, strict=True) if new is None]
    if wrong:
        raise ValueError(f"{command.strip()} does not print\n    {wrong[0]}\nbut\n{printed}")
    return command + "".join(f"{line.rstrip()}\n" for line in shown_anew)


def run(command: str, folder: Path) -> str:
    """What a command prints; one that is interrupted on purpose, by `timeout`, comes back with 124."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "120"}
    ran = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, env=environment)
    if ran.returncode != (124 if command.startswith("timeout") else 0):
        raise ValueError(f"{command.strip()} came back with {ran.returncode}:\n{ran.stderr}")
    return ran.stdout + ran.stderr


def like(line: str, printed: list[str]) -> str | None:
    """The first printed line with the same words, whatever its numbers."""
    words = (re.sub(r"(\\-)?\d[\d,]*", r"-?[\\d,]+", re.escape(word)) for word in line.split())
    pattern = r"\s+".join(words)
    return next((one for one in printed if re.search(pattern, one)), None)


if __name__ == "__main__":
    for name in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            (DOCS / name).write_text(done((DOCS / name).read_text(), Path(folder)))
