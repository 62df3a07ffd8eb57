"""Every message of the program, to be read: what it says in errors, hints, notices, tables and help.

    python scripts/list_messages.py            each once, by the file that says it first
    python scripts/list_messages.py WORD …     those with all of these words in them

They are the texts of several words in the syntax trees of `src`, but for docstrings. Values that are put into one are
shown by their names, in braces; the texts of one that is put together of several stand each by itself.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGES = ("worldsize", "worldsize_hpcpack_simulator")
_WORDS = re.compile(r"[^\W\d_]{2,}[\w'’`)\]}]*[,:;.]? +[\w'`(\[{]*[^\W\d_]")
"""Two words in a row; one with a value beside it is a message where the value has a name in braces."""


class Message(NamedTuple):
    file: str
    line: int
    text: str


def read_messages(source: Path) -> list[Message]:
    """The messages of a source tree, each once, by file and line."""
    found: dict[str, Message] = {}
    for package in PACKAGES:
        for path in sorted((source / package).rglob("*.py")):
            name = path.relative_to(source).as_posix()
            for line, text in sorted(texts_of(path.read_text(encoding="utf-8"))):
                found.setdefault(text, Message(name, line, text))
    return sorted(found.values())


def texts_of(code: str) -> Iterator[tuple[int, str]]:
    """The line and the words of each message in a module."""
    waiting: list[ast.AST] = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if isinstance(node, (ast.JoinedStr, ast.Constant)):
            text = _text(node)
            if _WORDS.search(text):
                yield node.lineno, text
        waiting += _parts(node)


def _parts(node: ast.AST) -> list[ast.AST]:
    """Where other messages may be: not in annotations, nor in the texts of one."""
    if isinstance(node, ast.JoinedStr):
        return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value is not None else []
    if isinstance(node, ast.arg):
        return []
    return list(ast.iter_child_nodes(node))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "{%s}" % ast.unparse(node.value)
    return "".join(map(_text, node.values)) if isinstance(node, ast.JoinedStr) else ""


def main(words: Sequence[str]) -> int:
    last = ""
    for message in read_messages(SOURCE):
        if not all(word.lower() in message.text.lower() for word in words):
            continue
        if message.file != last:
            print("%s%s" % ("\n" if last else "", message.file))
        last = message.file
        print("%5d  %s" % (message.line, message.text.rstrip("\n").replace("\n", "\n       ")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
