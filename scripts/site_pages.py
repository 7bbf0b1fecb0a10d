"""What MkDocs adds to the pages of docs/ (a hook of mkdocs.yml): the README as home, and the notebooks as pages."""

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
# Texts whose home is the top of the repository, and where the site shows them.
TOP = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Any, config: Any) -> Any:
    """Add the texts of the top folder and a page for every notebook."""
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=from_the_top((ROOT / name).read_text())))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        name = notebook.src_uri.removesuffix(".ipynb")
        text, pictures = as_markdown(json.loads(notebook.content_string), name.rpartition("/")[2])
        files.append(File.generated(config, f"{name}.md", content=text))
        for picture, content in pictures.items():
            files.append(File.generated(config, f"{name.rpartition('/')[0]}/{picture}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """On the site a link to a notebook leads to its page."""
    return re.sub(r"\]\(([^):]+)\.ipynb\)(?!\{)", r"](\1.md)", markdown)


def from_the_top(text: str) -> str:
    """A text of the top folder with its links as seen from docs/."""
    for name, page in TOP.items():
        text = text.replace(f"]({name})", f"]({page})")
    return re.sub(r'(\]\(|src="|srcset="|href=")docs/', r"\1", text)


def as_markdown(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as a page, and its pictures."""
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![{alternative(source)}]({picture})")
            elif text := "".join(output.get("text", data.get("text/plain", ""))):
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts.append(f"[This page as a notebook]({name}.ipynb){{download}}")
    return "\n\n".join(parts) + "\n", pictures


def alternative(source: str) -> str:
    """What a picture shows, for whoever cannot see it: the comment at the head of its cell."""
    first = source.partition("\n")[0]
    return first.removeprefix("# ").rstrip(".") if first.startswith("# ") else "Output"
