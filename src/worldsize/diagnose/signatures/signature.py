"""What a line says about the cause of a failure: one row of the tables of signatures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from worldsize.common.named_tuple import NamedTuple


class Role:
    """What a line can be in the story of a failure.

    ROOT          it can be the cause
    CASCADE       it tells of another's failure: it is never the cause where a root is known
    CONFIRMATION  it says of a cause that it was so, and names none by itself
    """

    ROOT = "root"
    CASCADE = "cascade"
    CONFIRMATION = "confirmation"


class Signature(NamedTuple):
    """One row.

    id       a word for people and for programs, for ever the same
    holds    the regular expression that the line holds; case counts
    meaning  what it says, as the end of a sentence that begins with who said it; `{name}` stands for a group
             of `holds`; the first of the groups detail, detail2, … that took part is put behind it. The group `whose`
             names the ranks that the line is about, where these are others than who said it: "1" or "1, 3"
    hint     what to do
    source   who writes the line, and where that is known
    role     a word of `Role`
    raised   it counts as the text of an uncaught exception alone, since programs that are well print such words, too
    """

    id: str
    holds: str
    meaning: str
    hint: str
    source: str
    role: str = Role.ROOT
    raised: bool = False


class Match(NamedTuple):
    """A row that a text matches. `meaning`: the row's, with what the text holds put in; `line`: the line of the text in
    which the match ends; `whose`: the ranks that the text names, none where it is about who said it."""

    signature: Signature
    meaning: str
    line: str = ""
    whose: tuple[int, ...] = ()


_ADVICE = re.compile(
    r"CUDA kernel errors might be asynchronously reported|CUDA_LAUNCH_BLOCKING|Compile with `?TORCH_USE_CUDA_DSA"
    r"|might be caused by|may be caused by|could be due to|possible (?:reason|cause)s? (?:is|are|include)"
    r"|[Pp]lease (?:check|make sure|try|see|refer)|[Ff]or (?:more|debugging|further) .*(?:see|consider|pass|set)"
)
"""How advice begins: it names causes that may not be this one."""


_NO_FAILURE = re.compile(
    r"(?:^(?:[^:\n]{0,200}:\d+: )?\w*Warning|: [Ww]arning): (?!CUDA initialization: )|\bWARNING\b"
    r"|^\[W(?!.*\(gai error:)[\d .:]* ?\w+\.cpp:|\]:\[W\d(?!.*\(gai error:)|^[WI]\d{4} \d\d:\d\d"
    r"|\bNCCL INFO\b|\]? W tensorflow/"
    r"|\b[Rr]etrying\b|\b[Ww]ill retry\b|\b[Tt]rying again\b|\b[Tt]rying (?:port )?\d|\b[Ff]all(?:ing)? ?back\b"
    r"|\(ignored\)|\b[Ii]gnoring\b|\b[Uu]sing (?:the )?(?:CPU\b|cpu\b|cached|defaults?\b|/)|\brunning on (?:the )?CPU\b"
    r"|; using \d|\bDisabling\b|\bfrom scratch\b|Max retries exceeded.*thrown while requesting"
    r"|Could not load dynamic library|Unable to initialize backend|failed call to cuInit"
    r"|mca_base_component_repository_open|\bmlock\b|\bibv_\w+ failed"
)
"""What a line holds that tells of what a program did without, or did again: it goes on."""


def without_advice(line: str) -> str:
    """Return the line up to where it begins to advise: from there on it says nothing of what happened."""
    found = _ADVICE.search(line)
    return line if found is None else line[: found.start()]


def match_text(text: str, rows: Sequence[Signature], raised: bool) -> Match | None:
    """Return the first of `rows` that `text` matches, advice apart; None for none. `raised`: whether the text is that
    of an uncaught exception."""
    said = "\n".join(map(without_advice, text.split("\n")))
    goes_on = not raised and _NO_FAILURE.search(text) is not None
    for row in rows:
        if (row.raised and not raised) or (goes_on and row.role != Role.CONFIRMATION):
            continue
        found = _compiled(row.holds).search(said)
        if found is not None:
            begin, end = said.rfind("\n", 0, found.end()) + 1, said.find("\n", found.end())
            line = said[begin : end if end >= 0 else None]
            return Match(row, _filled(row.meaning, found), line, _named_ranks(found.groupdict().get("whose")))
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _named_ranks(text: str | None) -> tuple[int, ...]:
    return tuple(sorted({int(each) for each in re.findall(r"\d{1,9}", text or "")}))


def _filled(meaning: str, found: re.Match[str]) -> str:
    """Return the meaning with the groups of the match in place of their names; behind it the first `detail` of it."""
    groups = found.groupdict("")
    detail = next((text for name, text in groups.items() if text and name.startswith("detail")), "")
    return re.sub(r"\{(\w+)\}", lambda name: groups[name[1]], meaning) + (f": {detail}" if detail else "")
