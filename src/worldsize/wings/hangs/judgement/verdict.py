"""The verdict on a hang, computed from the findings of all witnesses: which ranks cause it, how, where they are, and
how certain that is.

Ranks are named if two witnesses agree, if the stacks or the Flight Recorder alone name them, or if the kernel or an
agent has seen the cause with certainty. Where the stacks and the recorder, or any two witnesses that would each
suffice, name different ranks, the verdict names no rank and shows both: a wrong name costs more than none.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import span_words
from worldsize.state.hang import WITNESSES as TITLES
from worldsize.wings.hangs.judgement.finding import (
    KINDS,
    NOT_ENTERED,
    NOT_LEFT,
    OTHER_CALL,
    RECORDER,
    STACKS,
    WITNESSES,
    call_text,
    ranks_text,
)
from worldsize.wings.hangs.judgement.finding import Finding as Finding

ESTABLISHED = "established"
"""The standing of a verdict on which two witnesses agree, or that the kernel or an agent has seen with certainty."""
SUPPORTED = "supported"
"""The standing of a verdict that the stacks or the Flight Recorder alone support."""
UNKNOWN = "unknown"

_ENOUGH = 2
_STRONG = frozenset((STACKS, RECORDER))


class Verdict(NamedTuple):
    """The verdict on why a run hangs.

    standing   ESTABLISHED, SUPPORTED or UNKNOWN; with UNKNOWN no rank is named
    kind, ranks, call, sequence, waiting, since, place  as in `Finding`
    witnesses  the witnesses that agree, in the order of WITNESSES; with UNKNOWN, all that name ranks
    missing    for each witness that names no rank, the reason
    sentence   the verdict in words, without a full stop
    """

    standing: str
    kind: str | None
    ranks: tuple[int, ...]
    call: str
    sequence: int | None
    waiting: tuple[int, ...]
    since: float | None
    place: tuple[str, int, str] | None
    witnesses: tuple[str, ...]
    missing: Mapping[str, str]
    sentence: str


def hang_verdict(
    findings: Iterable[Finding], nodes: Mapping[int, int] | None = None, missing: Mapping[str, str] | None = None
) -> Verdict:
    """Return the verdict on which ranks cause a hang, from the findings of all witnesses.

    `nodes` maps ranks to their nodes, which the sentence includes. `missing` maps witnesses to the reason why they were
    not consulted; a witness whose findings name no rank is missing with the text of these findings. The caller must not
    pass a finding of the Flight Recorder if there is no dump: a recorder finding that does not confirm a different call
    seen by the stacks makes that call doubtful.
    """
    said = list(findings)
    unheard = _missing(said, missing or {})
    sure = [each for each in said if not _is_doubtful(each, said)]
    best = [each for witness in WITNESSES for each in _best_of([one for one in sure if one.witness == witness])]
    groups = _agreeing(best)
    enough = [group for group in groups if _weight(group) >= _ENOUGH]
    if len(enough) == 1:
        return _named(enough[0], said, nodes or {}, unheard)
    return _unknown(best, said, unheard, disagree=len(enough) > 1)


def _is_doubtful(finding: Finding, said: Iterable[Finding]) -> bool:
    """Return whether `finding` must not count because it is a finding of the stacks that some ranks are in another call
    than the rest, and the Flight Recorder, which knows the process groups of calls, has findings in `said` of which
    none names the same ranks."""
    if finding.witness != STACKS or finding.kind != OTHER_CALL:
        return False
    recorded = [each for each in said if each.witness == RECORDER]
    return bool(recorded) and all(each.ranks != finding.ranks for each in recorded)


def _missing(findings: Iterable[Finding], given: Mapping[str, str]) -> dict[str, str]:
    """Return, by witness, the reason why each witness of the hang that names no rank names none: the texts of its
    findings, else the reason in `given`, else "it was not queried"."""
    heard: dict[str, list[str]] = {}
    naming = set()
    for each in findings:
        heard.setdefault(each.witness, []).append(each.text)
        if each.kind is not None:
            naming.add(each.witness)
    found = {}
    for witness in WITNESSES:
        if witness not in naming:
            found[witness] = "; ".join(heard.get(witness, ())) or given.get(witness, "it was not queried")
    return found


def _best_of(findings: Sequence[Finding]) -> list[Finding]:
    """Return a list with the findings of one witness merged into one Finding, of the kind that takes precedence. Where
    several findings of this kind name ranks, the merged one names all of these ranks. Return an empty list if no rank
    is named."""
    named = [each for each in findings if each.kind in KINDS and each.ranks]
    if not named:
        return []
    kind = min((each.kind or NOT_LEFT for each in named), key=KINDS.index)
    same = [each for each in named if each.kind == kind]
    first = same[0]
    ranks = tuple(sorted({rank for each in same for rank in each.ranks}))
    if ranks == first.ranks:
        return [first]
    waiting = {rank for each in same for rank in each.waiting} - set(ranks)
    text = "; ".join(each.text for each in same)
    merged = first._replace(
        ranks=ranks, call="", sequence=None, group="", place=None, waiting=tuple(sorted(waiting)), text=text
    )
    return [merged]


def _agreeing(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings as lists, one for each set of ranks that they name."""
    found: dict[tuple[int, ...], list[Finding]] = {}
    for each in findings:
        found.setdefault(each.ranks, []).append(each)
    return list(found.values())


def _weight(group: Iterable[Finding]) -> int:
    """Return the weight that findings which name the same ranks have for the verdict on a hang, in witnesses. A finding
    that suffices alone counts as two. Only findings of one kind are added up, and the largest sum counts."""
    return max(sum(_ENOUGH if _is_enough(each) else 1 for each in group if each.kind == kind) for kind in KINDS)


def _is_enough(finding: Finding) -> bool:
    return finding.certain or finding.witness in _STRONG


def _named(
    group: Sequence[Finding], said: Iterable[Finding], nodes: Mapping[int, int], missing: Mapping[str, str]
) -> Verdict:
    kind = _kind_of(group)
    agreeing = [each for each in group if each.kind == kind]
    seen = [each for each in said if each.kind is None and each.ranks == group[0].ranks]
    entered = next((each.entered for each in (*agreeing, *group, *seen) if each.entered), "")
    detailed = sorted(agreeing, key=lambda each: (each.sequence is None, not each.call, each.witness not in _STRONG))
    first = detailed[0]
    state = next((each.state for each in group if each.state), "")
    since = first.since or next((each.since for each in agreeing if each.since), None)
    waiting = first.waiting or next((each.waiting for each in agreeing if each.waiting), ())
    if kind == NOT_ENTERED and entered and not state:
        kind = OTHER_CALL
    places = [each for each in (*agreeing, *said) if each.ranks == first.ranks and each.place is not None]
    place = min(places, key=lambda each: each.witness != STACKS).place if places else None
    sure = len(agreeing) >= _ENOUGH or any(each.certain for each in group)
    witnesses = tuple(each.witness for each in agreeing)
    whole = first._replace(
        state=state,
        since=since,
        waiting=waiting,
        place=place,
        kind=kind,
        entered=entered,
    )
    return Verdict(
        ESTABLISHED if sure else SUPPORTED,
        kind,
        first.ranks,
        first.call,
        first.sequence,
        waiting,
        since,
        place,
        witnesses,
        dict(missing),
        _sentence(whole, nodes),
    )


def _kind_of(group: Sequence[Finding]) -> str:
    """Return the kind of a group of findings that name the same ranks: the first of KINDS whose findings have enough
    weight for a verdict. NOT_LEFT takes precedence where stacks show the rank within a call that the others have left:
    other witnesses may report that the rank has not entered the next call, which is also true."""
    if any(each.witness == STACKS and each.kind == NOT_LEFT for each in group):
        return NOT_LEFT
    return next(kind for kind in KINDS if _weight([each for each in group if each.kind == kind]) >= _ENOUGH)


def _unknown(
    findings: Sequence[Finding], said: Iterable[Finding], missing: Mapping[str, str], disagree: bool
) -> Verdict:
    """Return the verdict UNKNOWN on a hang, which names no rank. Its sentence contains the findings that name ranks
    (`findings`), else the text of the stacks or of the recorder, else the reasons why the witnesses are missing.
    `disagree` is whether several findings would each suffice."""
    witnesses = tuple(each.witness for each in findings)
    shown = [f"{TITLES[each.witness]}: {each.text}" for each in findings]
    if disagree:
        what = "the witnesses do not agree: " + "; ".join(shown)
    elif shown:
        what = "one witness is not enough: " + "; ".join(shown)
    else:
        heard = {each.witness for each in said}
        shown = [missing[name] for name in (STACKS, RECORDER) if name in heard and name in missing]
        shown = shown[:1] or [f"{TITLES[name]}: {why}" for name, why in missing.items()]
        what = "no rank differs from the others: " + "; ".join(shown)
    return Verdict(UNKNOWN, None, (), "", None, (), None, None, witnesses, dict(missing), what)


def _sentence(finding: Finding, nodes: Mapping[int, int]) -> str:
    ranks, many = finding.ranks, len(finding.ranks) > 1
    where = sorted({nodes[rank] for rank in ranks if rank in nodes})
    who = ranks_text(ranks)
    if where:
        who += " ({} {})".format("node" if len(where) == 1 else "nodes", ",".join(span_words(where)))
    call = call_text(finding.call, finding.sequence, finding.group)
    others = len(finding.waiting)
    verbs = ("has waited", "have waited") if finding.since else ("waits", "wait")
    since = f" since {time.strftime('%H:%M:%S', time.localtime(finding.since))}" if finding.since else ""
    waiting = f"; {others} other{f's {verbs[1]}' if others != 1 else f' {verbs[0]}'} there{since}" if others else ""
    if finding.kind == NOT_ENTERED:
        verb = f"{'have' if many else 'has'} not entered"
        said = f"{who} {finding.state} and {verb} {call}" if finding.state else f"{who} {verb} {call}"
    elif finding.kind == OTHER_CALL:
        entered = f" ({finding.entered})" if finding.entered else ""
        said = f"{who} entered another call{entered} than {call}"
    else:
        said = f"{who} {finding.state} and did not leave {call}" if finding.state else f"{who} did not leave {call}"
        waiting = f"; {others} other{'s have' if others != 1 else ' has'} left it" if others else ""
    if finding.place is None:
        return said + waiting
    file, line, function = finding.place
    at = f"{os.path.basename(file)}:{line}"
    pronoun = "they are" if many else "it is"
    return f"{said}{waiting}; {pronoun} in {function}, {at}" if function else f"{said}{waiting}; {pronoun} at {at}"
