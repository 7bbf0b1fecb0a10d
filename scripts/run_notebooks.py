"""Executes the notebooks of docs/notebooks anew: in their place, or into the folder given."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HOME = Path(__file__).parents[1] / "docs" / "notebooks"


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of now, and nothing in it that changes from day to day."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        # Ten minutes a cell: what takes longer hangs.
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    client.execute()
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(folder: Path, names: list[str]) -> None:
    for path in [HOME / f"{name}.ipynb" for name in names] or sorted(HOME.glob("*.ipynb")):
        nbformat.write(executed(path), folder / path.name)
        print(folder / path.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HOME, sys.argv[2:])
