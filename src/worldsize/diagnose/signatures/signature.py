"""Rows of the tables of signatures, each with the meaning of a log line for the cause of a failure, and the search for
a matching row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from worldsize.common.named_tuple import NamedTuple


class Role:
    """The role of a line in the explanation of a failure.

    ROOT          it can be the cause
    CASCADE       it reports another rank's failure, and is never the cause if a root is known
    CONFIRMATION  it confirms a cause, and shows none by itself
    """

    ROOT = "root"
    CASCADE = "cascade"
    CONFIRMATION = "confirmation"


class Signature(NamedTuple):
    """A row of the tables.

    id       a permanent word for people and for programs
    holds    the regular expression that the line matches; case counts
    meaning  what the line means, as the end of a sentence that begins with the rank that printed it; `{name}` is
             replaced with a group of `holds`; the first of the groups detail, detail2, … that took part is appended.
             The group `whose` names the ranks that the line is about, if these are other ranks: "1" or "1, 3"
    hint     what to do
    source   the program that writes the line, and the place in its source where that is known
    role     a word of `Role`
    raised   whether only the text of an uncaught exception counts, since healthy programs print such words too
    """

    id: str
    holds: str
    meaning: str
    hint: str
    source: str
    role: str = Role.ROOT
    raised: bool = False


class Match(NamedTuple):
    """A row that a text matches. `meaning` is the row's, with parts of the text filled in. `line` is the line of the
    text in which the match ends. `whose` are the ranks that the text names; none if it is about the rank that printed
    it."""

    signature: Signature
    meaning: str
    line: str = ""
    whose: tuple[int, ...] = ()


_ADVICE = re.compile(
    r"CUDA kernel errors might be asynchronously reported|CUDA_LAUNCH_BLOCKING|Compile with `?TORCH_USE_CUDA_DSA"
    r"|might be caused by|may be caused by|could be due to|possible (?:reason|cause)s? (?:is|are|include)"
    r"|[Pp]lease (?:check|make sure|try|see|refer)|[Ff]or (?:more|debugging|further) .*(?:see|consider|pass|set)"
)
"""Pattern for the beginning of advice, which names causes that may not be this one."""


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
"""Pattern for lines about a thing that a program did without, or did again. The program runs on after such a line."""


def without_advice(line: str) -> str:
    """Return a line of a log or exception up to the place where advice begins ("Please check …", "may be caused by …"),
    since advice does not describe what happened."""
    found = _ADVICE.search(line)
    return line if found is None else line[: found.start()]


def match_text(text: str, rows: Sequence[Signature], raised: bool) -> Match | None:
    """Return a Match with the first of the signatures `rows` that `text`, a log line or an exception, matches, advice
    excluded; None if there is none. `raised` is whether the text is that of an uncaught exception. A log line after
    which programs run on, such as a warning, matches only confirmations."""
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
    """Return `meaning`, the meaning of a signature, with each `{name}` replaced by that group of the regular expression
    match `found`, followed by the first group `detail…` that took part."""
    groups = found.groupdict("")
    detail = next((text for name, text in groups.items() if text and name.startswith("detail")), "")
    return re.sub(r"\{(\w+)\}", lambda name: groups[name[1]], meaning) + (f": {detail}" if detail else "")
