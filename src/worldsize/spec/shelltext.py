"""Words of a shell script as text again. Pure."""

from __future__ import annotations

import re
import shlex

from worldsize.spec.shellwords import ARITHMETIC, ELEMENTS, LITERAL, VARIABLE, Part, Word

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_SAFE = frozenset("_-./=:,@%+")


def plain_text(word: Word) -> str | None:
    """Of a word without expansions; None for any other."""
    return "".join([part.text for part in word]) if all(part.kind == LITERAL for part in word) else None


def assigned_name(word: Word) -> str:
    """`A` of `A=1`; empty for what is no assignment."""
    text = ""
    for part in word:
        if part.kind != LITERAL:
            break
        text += part.text
    found = _ASSIGNED.match(text)
    return found[1] if found else ""


def source_text(word: Word) -> str:
    """The word as a shell reads it as the same word."""
    plain = plain_text(word)
    if plain is None:
        return "".join(map(_part, word))
    name = assigned_name(word)
    return "%s=%s" % (name, shlex.quote(plain[len(name) + 1 :])) if name else shlex.quote(plain)


def _part(part: Part) -> str:
    if part.kind == LITERAL:
        return "".join(c if c.isalnum() or c in _SAFE else "\\" + c for c in part.text)
    if part.kind == ELEMENTS:
        return part.text
    if part.kind == VARIABLE:
        text = "$" + part.text if _SIMPLE.fullmatch(part.text) else "${%s}" % part.text
    else:
        text = "$((%s))" % part.text if part.kind == ARITHMETIC else "$(%s)" % part.text
    return '"%s"' % text if part.quoted else text
