"""The Python in README and docs runs, and what the README says of the numbers is true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "adding-a-problem.md"]


def python_of(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page):
    blocks = python_of(page)
    assert blocks
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if page.name == "README.md":
        lines = done.stdout.splitlines()
        numbers = [float(line) for line in lines if re.fullmatch(r"[\d.]+", line)]
        assert numbers == pytest.approx([0.012, 0.365], abs=5e-4)
        values = {line.split()[0]: float(line.split()[2]) for line in lines if line.startswith(("direct", "curl"))}
        assert values["curl"] > 0.3 > 0.2 > values["direct"]


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_map_from_paper_to_code_names_only_what_exists():
    text = (ROOT / "docs" / "theory.md").read_text()
    for module, name in re.findall(r"`((?:exact\.\w+|\w+|learn\.\w+|problems\.\w+))\.(\w+)`", text):
        path = ROOT / "rampup" / (module.replace(".", "/") + ".py")
        if module in ("problem", "Moments", "diagnostics", "kappa") and not path.exists():
            continue
        if not path.exists():
            continue
        assert re.search(rf"\b(def|class) {name}\b", path.read_text()), f"{module}.{name}"
