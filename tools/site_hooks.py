"""What the site has beyond docs/: the notebooks as pages, and the changelog. Used by mkdocs.yml."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Adds a page for each notebook, and one for the changelog."""
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        text = page_of(json.loads(notebook.read_text(encoding="utf-8")))
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=text))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changes.md", content=changes.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to notebooks lead to their pages."""
    return re.sub(r"\]\(\.\./notebooks/([\w-]+)\.ipynb\)", r"](notebooks/\1.md)", markdown)


def page_of(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown: text, code, and what the code showed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", source)
            parts.append(source.replace("](../docs/", "](../"))
        else:
            parts.append(f"```python\n{source}\n```")
            parts += [_shown(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    text = "".join(data.get("text/plain") or output.get("text") or "")
    # As text, not as the HTML that pandas writes: values of the evidence stay text.
    return f"<pre><code>{html.escape(text)}</code></pre>".replace("\n\n", "\n \n")
