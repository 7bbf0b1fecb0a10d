"""What README and docs say is true: Python and commands run, names and links lead somewhere, the site builds."""

import ast
import base64
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def script(name):
    """One of the scripts of the project, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python_of(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if python_of(page)], ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page):
    done = subprocess.run([sys.executable, "-c", "\n".join(python_of(page))], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if page.name == "README.md":
        lines = done.stdout.splitlines()
        numbers = [float(line) for line in lines if re.fullmatch(r"[\d.]+", line)]
        assert numbers == pytest.approx([0.012, 0.365], abs=5e-4)
        values = {line.split()[0]: float(line.split()[2]) for line in lines if line.startswith(("direct", "curl"))}
        assert values["curl"] > 0.3 > 0.2 > values["direct"]


def test_links_between_pages_lead_somewhere():
    texts = [(page, page.read_text()) for page in PAGES]
    texts += [(path, "\n".join(words_of(path))) for path in NOTEBOOKS]
    for page, text in texts:
        for target in re.findall(r"\]\(([^)#:\s]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def words_of(notebook):
    """The markdown of a notebook."""
    return [
        "".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] != "code"
    ]


def is_there(name):
    """Whether a dotted name leads to something: a module, what is in it, or a field of that."""
    found, path = None, ""
    for part in name.split("."):
        path = f"{path}.{part}".strip(".")
        if found is None or (hasattr(found, "__path__") and importlib.util.find_spec(path)):
            found = importlib.import_module(path)
        elif hasattr(found, part):
            found = getattr(found, part)
        else:
            return part in getattr(found, "__annotations__", {})
    return True


def test_the_map_from_paper_to_code_names_only_what_exists():
    text = (DOCS / "theory.md").read_text()
    names = set(re.findall(r"`((?:[a-z_]+\.)+\w+)`", text)) - set(re.findall(r"`(\w+\.(?:py|md))`", text))
    assert len(names) > 80
    missing = [name for name in sorted(names) if not is_there(f"rampup.{name}")]
    assert not missing


def test_names_inside_the_package_exist_on_every_page():
    for page in PAGES:
        for name in re.findall(r"`(rampup(?:\.\w+)+)[`(]", page.read_text()):
            assert is_there(name), f"{page.name} speaks of {name}"


def test_the_map_from_paper_to_code_names_only_tests_that_exist():
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", (DOCS / "theory.md").read_text())
    assert len(named) > 80
    for file, name in named:
        tree = ast.parse((ROOT / "tests" / file).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file}::{name}"


def test_the_page_of_commands_is_what_the_command_line_says():
    page = script("commands_page").page()
    assert (DOCS / "commands.md").read_text() == page, "write it anew with `make docs`"


def test_the_site_builds_without_a_warning_and_needs_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    # The theme prints an opinion on its future, unless told not to.
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "tutorial.html", "commands.html", "theory.html"} < set(pages)
    assert {f"notebooks/{path.stem}.html" for path in NOTEBOOKS} < set(pages)
    for name, page in pages.items():
        fetched = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\b(?:src|srcset)=\"?(?:https?:)?//[^\s>]*", page)
        fetched += re.findall(r"<link\b[^>]*\brel=\"?(?:stylesheet|preconnect|icon)[^>]*\bhref=\"?(?:https?:)?//", page)
        assert not fetched, f"{name} fetches {fetched}"


def test_notebooks_are_executed_and_small():
    assert [path.stem for path in NOTEBOOKS] == ["adw", "bcp", "okd"]
    for path in NOTEBOOKS:
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), path.name
        outputs = [output for cell in cells for output in cell["outputs"]]
        assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
        pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
        assert len(pictures) >= 2
        assert all(len(base64.b64decode(picture)) < 100_000 for picture in pictures)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.long, id=path.stem) for path in NOTEBOOKS],
)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path):
    pytest.importorskip("nbclient")
    run = [sys.executable, str(ROOT / "scripts" / "run_notebooks.py"), str(tmp_path), path.stem]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / path.name).exists()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [pytest.param("tutorial.md", marks=pytest.mark.long), "from-csv.md"])
def test_the_commands_of_a_tutorial_print_what_it_says(name, tmp_path, monkeypatch):
    # Its commands have programs in common.
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "compiled"))
    folder = tmp_path / "tutorial"
    folder.mkdir()
    page = (DOCS / name).read_text()
    anew = script("run_tutorial").done(page, folder)
    assert len(re.findall(r"^\$ rampup", page, flags=re.MULTILINE)) >= 8
    assert without_numbers(anew) == without_numbers(page)


def without_numbers(text):
    """A page whose tables may be sorted otherwise when numbers change."""
    return sorted(" ".join(re.sub(r"-?\d[\d,]*", "0", line).split()) for line in text.splitlines())
