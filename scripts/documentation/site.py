"""The hooks of mkdocs for the documentation's site: its navigation, and links to files outside of `docs/`.

The navigation follows the folders. In a folder, `index.md` comes first, then the pages in the order in which it links
to them. A file of the repository that a page links to, such as an example, is a file of the site, below `project/`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUTSIDE = "project/"
"""The folder of the site with the files outside of `docs/`."""
_UNSEARCHED = ("evidence/", OUTSIDE + "tests/", OUTSIDE + "CHANGELOG")
"""Beginnings of the paths of pages that the search leaves out."""
_LINK = re.compile(r"(?P<before>\]\()(?P<path>(?!\w+:)[^)\s#]+)(?P<after>(?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PARTS = ("tutorial", "how-to", "reference", "causes", "explanation")


def on_config(config: Any) -> Any:
    """Set the navigation."""
    parts = [{_title(DOCS / part / "index.md"): _entries(DOCS / part)} for part in _PARTS]
    config["nav"] = [{"Home": "index.md"}, *parts, "compatibility.md", "glossary.md"]
    return config


def _entries(folder: Path) -> list[Any]:
    """Return the navigation of a folder: pages, and folders inside."""
    children = [path for path in folder.iterdir() if path.suffix == ".md" or (path.is_dir() and any(path.glob("*.md")))]
    index = folder / "index.md"
    linked = [target.resolve() for target in links(index)] if index.exists() else []
    order = {path: place for place, path in reversed(list(enumerate(linked)))}

    def place(path: Path) -> tuple[bool, int, str]:
        inside = [order[each] for each in order if each == path or path in each.parents]
        return path.name != "index.md", min(inside, default=len(linked)), path.name

    return [
        {_title(path / "index.md"): _entries(path)} if path.is_dir() else str(path.relative_to(DOCS))
        for path in sorted(children, key=place)
    ]


def _title(page: Path) -> str:
    """Return the title of a page; the name of its folder, if it does not exist."""
    if not page.exists():
        return page.parent.name.replace("-", " ").capitalize()
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def links(page: Path) -> Iterator[Path]:
    """Yield the files that the page links to, in its order."""
    for found in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        yield page.parent / found["path"]


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside of `docs/` that pages link to."""
    todo = [Path(each.abs_src_path) for each in files.documentation_pages()]
    seen = set()
    while todo:
        for target in map(Path.resolve, links(todo.pop())):
            if target in seen or target.is_relative_to(DOCS) or not target.is_file():
                continue
            seen.add(target)
            files.append(File.generated(config, _site_path(target), abs_src_path=str(target)))
            if target.suffix == ".md":
                todo.append(target)
    return files


def _site_path(target: Path) -> str:
    """Return the path below the site's sources of a file of the repository."""
    return str(target.relative_to(DOCS)) if target.is_relative_to(DOCS) else OUTSIDE + str(target.relative_to(ROOT))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return the page's text with the links that lead where its targets are on the site. The search does not find
    records of tests and of changes."""
    if page.file.src_uri.startswith(_UNSEARCHED):
        page.meta["search"] = {"exclude": True}
    source = Path(page.file.abs_src_path).resolve()
    here = os.path.dirname(page.file.src_uri)

    def renewed(found: re.Match[str]) -> str:
        target = (source.parent / found["path"]).resolve()
        if not target.is_relative_to(ROOT):
            return found[0]
        return found["before"] + os.path.relpath(_site_path(target), here or ".") + found["after"]

    return _LINK.sub(renewed, markdown)
