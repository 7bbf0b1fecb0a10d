"""Imports point one way: what a module may import is written here, and nothing else is."""

import ast
from pathlib import Path

import rampup

ROOT = Path(rampup.__file__).parent

# From the ground up; a module may import what stands before it, and its own folder.
LAYERS = [
    ["gymnasium_plugin"],
    ["arguments", "types", "intervals", "threads", "devices", "processes", "runtime", "portable", "documents"],
    ["data"],
    ["decide"],
    ["streams"],
    ["lanes", "kernels"],
    ["registers"],
    ["integer_programs"],
    ["problems"],
    ["features"],
    ["scores"],
    ["policy"],
    ["runs"],
    ["episodes"],
    ["checks"],
    ["factors"],
    ["solvers"],
    ["kappa", "diagnostics"],
    ["theory"],
    ["exact"],
    ["references"],
    ["learn"],
    ["examples"],
    ["gym", "stories", "catalogue", "evaluation", "held_out", "advice", "claims", "report", "portrait", "provenance"],
    ["config", "experiments"],
    ["outlines", "recipes", "schedules"],
    ["plans"],
    ["audit"],
    ["conductor", "bench", "exporting", "explaining"],
    ["sweeps"],
    ["cli"],
    ["__main__"],
]


def layer_of(module):
    for index, names in enumerate(LAYERS):
        if any(module == name or module.startswith(name + ".") for name in names):
            return index
    raise AssertionError(f"rampup.{module} stands in no layer: add it to LAYERS.")


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield node.module if node.module != "rampup" else ""
            if node.module in ("rampup", "rampup.exact", "rampup.problems", "rampup.learn", "rampup.references"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not name.endswith("__init__"):
            yield name, path


def test_imports_point_one_way():
    for name, path in modules():
        for imported in imports_of(path):
            if not imported or not imported.startswith("rampup."):
                continue
            other = imported.removeprefix("rampup.")
            if not (ROOT / other.split(".")[0]).exists() and not (ROOT / f"{other.split('.')[0]}.py").exists():
                continue
            assert layer_of(other) <= layer_of(name), f"rampup.{name} imports rampup.{other}, which stands above it"


def test_every_public_name_can_be_loaded_and_typed():
    stub = (ROOT / "__init__.pyi").read_text()
    for name in dir(rampup):
        assert getattr(rampup, name) is not None
        if name not in ("__version__", "gymnasium_plugin"):
            assert f" as {name}\n" in stub


def test_every_module_says_what_it_is_for():
    for path in ROOT.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path
