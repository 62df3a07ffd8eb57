"""Comments in a converted file, above the statements that are left to the user."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import libcst as cst

from worldsize.wings.convert.program import SourceFile
from worldsize.wings.convert.syntax import nodes_below

_WIDTH = 100


def statement_at(file: SourceFile, line: int) -> cst.CSTNode | None:
    """Return the innermost statement of a file that has lines of its own and contains the line number `line`; None if
    there is none."""
    found = None
    for node in nodes_below(file.module):
        if hasattr(node, "leading_lines") and _spans(file, node, line):
            found = node
    return found


def commented(text: str) -> Callable[[Any], Any]:
    """Return a function that maps a statement of the syntax tree to the same statement with `text` as a comment above
    it."""

    def add(statement: Any) -> Any:
        return statement.with_changes(leading_lines=[*statement.leading_lines, *_comment_lines(text)])

    return add


def _spans(file: SourceFile, node: cst.CSTNode, line: int) -> bool:
    return file.line(node) <= line <= file.last_line(node)


def _comment_lines(text: str) -> Iterator[cst.EmptyLine]:
    for line in textwrap.wrap(text, _WIDTH, break_long_words=False):
        yield cst.EmptyLine(comment=cst.Comment("# " + line))
