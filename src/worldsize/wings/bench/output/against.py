"""Comparison of a result with an earlier one: which worlds are faster, and what else differs."""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.wings.bench.result import BenchResult, Table
from worldsize.wings.bench.scaling.curve import Point, is_clearly_faster, scaling_curve
from worldsize.wings.bench.scaling.wording import NONE, amount_text, list_text

_MOST_DIFFERENCES = 12
_LONGEST_VALUE = 60


def comparison_table(result: BenchResult, other: BenchResult) -> Table | None:
    """Return a table that compares the rates of a benchmark's `result` and of an earlier one, `other`, in the worlds
    that both have measured; None if there are none, or if the two results measure different things."""
    if not _is_comparable(result, other):
        return None
    earlier = {point.world: point for point in scaling_curve(other).measured()}
    pairs = [
        (point, earlier[point.world])
        for point in scaling_curve(result).points
        if point.rate is not None and point.world in earlier
    ]
    if not pairs:
        return None
    headers = ("world", f"{result.unit} now", "before", "ratio", "verdict")
    return Table(f"Against: {other.title}", headers, tuple(_row(now, before) for now, before in pairs))


def _row(now: Point, before: Point) -> tuple[str, ...]:
    ratio = now.rate / before.rate if now.rate and before.rate else None
    return (
        str(now.world),
        _with_spread(now),
        _with_spread(before),
        amount_text(ratio) + _ratio_spread(now, before),
        _verdict(now, before),
    )


def _with_spread(point: Point) -> str:
    if point.low is None or point.high is None:
        return amount_text(point.rate)
    return f"{amount_text(point.rate)} ({amount_text(point.low)}–{amount_text(point.high)})"


def _ratio_spread(now: Point, before: Point) -> str:
    if now.low is None or now.high is None or before.low is None or before.high is None:
        return ""
    return f" ({amount_text(now.low / before.high)}–{amount_text(now.high / before.low)})"


def _verdict(now: Point, before: Point) -> str:
    """Return whether the rate of a world is now "faster", "slower" or "within the spread" compared with the earlier
    result. There is no verdict if one of the two has no spread, because the meaning of a difference is not known then.
    """
    if now.low is None or before.low is None:
        return NONE
    if is_clearly_faster(now, before):
        return "faster"
    return "slower" if is_clearly_faster(before, now) else "within the spread"


def comparison_sentences(result: BenchResult, other: BenchResult) -> tuple[str, ...]:
    if not _is_comparable(result, other):
        return (f"Nothing is compared: that result is from {_what(other)}, this one from {_what(result)}.",)
    found = []
    if comparison_table(result, other) is None:
        found.append("Nothing is compared: no world was measured in both.")
    found += [f"Not the same: {text}." for text in _differences(result, other)]
    return tuple(found)


def _what(result: BenchResult) -> str:
    scaling = f", {result.scaling} scaling" if result.scaling else ""
    return f"`bench {result.kind}` in {result.unit}{scaling}"


def _is_comparable(result: BenchResult, other: BenchResult) -> bool:
    return (result.kind, result.unit, result.scaling) == (other.kind, other.unit, other.scaling)


def _differences(result: BenchResult, other: BenchResult) -> list[str]:
    """Return the differences in settings, hardware and software between a benchmark's `result` and the earlier one,
    `other`, as texts such as "batch 64, before 128"; of many only the first ones, and the number of the rest."""
    found = list(_differing([("title", result.title)], [("title", other.title)]))
    found += _differing([("compute", result.compute)], [("compute", other.compute)])
    found += _differing(result.settings.items(), other.settings.items())
    found += _differing(result.hardware, other.hardware)
    found += _differing(
        [*result.software, ("worldsize", result.worldsize)], [*other.software, ("worldsize", other.worldsize)]
    )
    unique = list(dict.fromkeys(found))
    shown = unique[:_MOST_DIFFERENCES]
    return shown if len(shown) == len(unique) else [*shown, f"{len(unique) - len(shown)} more"]


def _differing(now: Iterable[tuple[str, str]], before: Iterable[tuple[str, str]]) -> Iterable[str]:
    ours, theirs = _values(now), _values(before)
    for name in {**ours, **theirs}:
        new, old = ours.get(name, []), theirs.get(name, [])
        if new != old:
            yield f"{name} {_value_text(new)}, before {_value_text(old)}"


def _values(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the values of each name in `pairs`, the rows of a table of facts, as lists by name. A name may have
    several rows, one for each kind of node."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _value_text(values: list[str]) -> str:
    text = list_text(values, 3) or "missing"
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
