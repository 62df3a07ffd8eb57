"""The values that the run's scripts have logged: charts by name, the last values, and MLflow's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.sections.charts import draw_charts
from worldsize.wings.report.text import filled_columns, shorten, time_text, value_text

_CHARTS = 24
_LINES = 8
_ROWS = 500
_PARAMETERS = 500
_NAME = 200


def logged(facts: RunFacts) -> list[Child]:
    series = [each for each in facts.series if each.points]
    found = [*_charts(facts, series), *_last_values(facts, series)]
    return [*found, *_parameters(facts)]


def _by_name(series: Sequence[Any]) -> Mapping[str, list[Any]]:
    """Return the series of logged values grouped by metric name, each group sorted by rank."""
    found: dict[str, list[Any]] = {}
    for each in series:
        found.setdefault(each.name, []).append(each)
    return {name: sorted(group, key=_rank_of) for name, group in found.items()}


def _rank_of(series: Any) -> int:
    """Return the sort key of a series of logged values: its rank, or -1 if it belongs to the whole run."""
    return -1 if series.rank is None else int(series.rank)


def _charts(facts: RunFacts, series: Sequence[Any]) -> list[Child]:
    names = _by_name(series)
    charts = [_chart(facts, name, each) for name, each in list(names.items())[:_CHARTS]]
    left = len(names) - len(charts)
    remark = f"{left} more names have no chart here: worldsize metrics {facts.run.id}"
    return [*draw_charts(facts.pictures, charts), *([facts.pictures.element("p", remark)] if left else [])]


def _chart(facts: RunFacts, name: str, series: Sequence[Any]) -> Any:
    shown = series[:_LINES]
    stepped = all(point.step is not None for each in shown for point in each.points)
    start = min(point.time for each in shown for point in each.points)
    lines = tuple(_line(facts, each, stepped, start) for each in shown)
    left = f" ({len(series) - len(shown)} more lines left out)" if len(series) > len(shown) else ""
    title = shorten(facts.mask(name), _NAME) + left
    return facts.pictures.Chart(title, "step" if stepped else "seconds", "", lines)


def _line(facts: RunFacts, series: Any, stepped: bool, start: float) -> Any:
    points = facts.metrics.current_points(series.points)
    xs = [float(point.step) if stepped else point.time - start for point in points]
    return facts.pictures.Line(_label(series), xs, [point.value for point in points])


def _label(series: Any) -> str:
    """Return the label of a series of logged values in a chart, which names their source: "rank 0", "tensorboard
    runs/a"."""
    whose = "" if series.rank is None else f"rank {series.rank}"
    source = "" if series.source == "log" else series.source
    return value_text(" ".join(filter(None, (whose, source, series.place))) or series.source, 80)


def _last_values(facts: RunFacts, series: Sequence[Any]) -> list[Child]:
    if not series:
        return []
    ordered = [each for group in _by_name(series).values() for each in group]
    firsts = list({(each.name, each.source, each.place): each for each in reversed(ordered)}.values())[::-1]
    others = [each for each in ordered if all(each is not first for first in firsts)]
    found = [_values_table(facts, firsts[:_ROWS])]
    if others:
        found.append(facts.pictures.details("other ranks", _values_table(facts, others[:_ROWS])))
    left = len(firsts[_ROWS:]) + len(others[_ROWS:])
    return [*found, *([facts.pictures.element("p", f"{left} more are left out.")] if left else [])]


def _values_table(facts: RunFacts, series: Sequence[Any]) -> Child:
    """Render a table of logged values, one row for each series (its last, lowest and highest value, its source), as
    `worldsize metrics` prints it, with times instead of ages."""
    rows = []
    for each in series:
        cells, was_nan = facts.metrics.series_row(each)
        rows.append([*map(facts.mask, cells), time_text(each.points[-1].time), facts.mask(was_nan)])
    headers = ("name", "last", "step", "lowest", "highest", "rank", "source", "time", "remark")
    return facts.pictures.table(*filled_columns(headers, rows))


def _parameters(facts: RunFacts) -> list[Child]:
    """Render, for the report page, a folded table of the parameters that MLflow runs have recorded for the run; nothing
    if there are none."""
    found = facts.metrics.read_parameters(facts.paths) if facts.metrics else {}
    rows = [
        [shorten(facts.mask(name), _NAME), shorten(facts.mask(f"{name}={value}").partition("=")[2]), value_text(place)]
        for place, values in found.items()
        for name, value in sorted(values.items())
    ]
    if not rows:
        return []
    table = facts.pictures.table(("parameter", "value", "MLflow run"), rows[:_PARAMETERS])
    return [facts.pictures.details(f"{len(rows)} parameters", table)]
