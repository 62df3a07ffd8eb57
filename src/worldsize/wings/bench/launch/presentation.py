"""Launchers beside each other: tables, sentences and a picture."""

from __future__ import annotations

import statistics

from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.bench.result import BenchResult, Measurement, Table
from worldsize.wings.bench.worlds import World

TIMES = {
    "first": "first line",
    "step": "first step",
    "end": "end",
    "failure_end": "end after a failure",
}
"""What was timed, by its name in `details`: from the command on until all ranks have begun, and have met; from their
end, or the failure of one, until nothing is left of them."""
_WORLDSIZE = "worldsize"


class LauncherTimes(NamedTuple):
    """`times`: seconds of each round, by the names in TIMES."""

    name: str
    version: str
    world: World
    nodes: int
    times: dict[str, list[float]]
    left: int
    failure: str

    def median(self, name: str) -> float | None:
        return statistics.median(self.times[name]) if self.times[name] else None


def tables(result: BenchResult) -> tuple[Table, ...]:
    """A table for each world: medians, and from the shortest to the longest."""
    headers = ("launcher", "version", *(f"{name}, s" for name in TIMES.values()), "left", "")
    return tuple(
        Table(f"{world}, {world.ranks} ranks", headers, tuple(_row(each) for each in rows))
        for world, rows in _worlds(result).items()
    )


def sentences(result: BenchResult) -> tuple[str, ...]:
    """For each world what worldsize takes, and how many times as long the others; where one of them is faster, that
    is said as well."""
    found = []
    for world, rows in _worlds(result).items():
        found += _compare(world, rows)
        found += [f"{world}: {each.name}: {each.failure}." for each in rows if each.failure]
        elsewhere = [each.name for each in rows if each.nodes < world.nodes]
        if elsewhere:
            found.append(f"{world}: {', '.join(elsewhere)} had all {world.ranks} ranks on one node.")
    return tuple(found) or ("Nothing was measured.",)


def charts(result: BenchResult, pictures: Any) -> tuple[Any, ...]:
    """Bars over the number of ranks, for each time."""
    rows = [each for rows in _worlds(result).values() for each in rows]
    found = []
    for name, title in TIMES.items():
        lines = tuple(_bars(launcher, name, rows, pictures) for launcher in dict.fromkeys(each.name for each in rows))
        if any(line.xs for line in lines):
            found.append(
                pictures.Chart(
                    title=title.capitalize(),
                    lines=tuple(line for line in lines if line.xs),
                    x_label="ranks",
                    y_label="s",
                    kind="bar",
                )
            )
    return tuple(found)


def _bars(launcher: str, name: str, rows: list[LauncherTimes], pictures: Any) -> Any:
    known = [(each.world.ranks, each.median(name), each.times[name]) for each in rows if each.name == launcher]
    shown = [(ranks, median, times) for ranks, median, times in known if median is not None]
    return pictures.Line(
        launcher,
        tuple(float(ranks) for ranks, _, _ in shown),
        tuple(median for _, median, _ in shown),
        lows=tuple(min(times) for _, _, times in shown),
        highs=tuple(max(times) for _, _, times in shown),
    )


def _worlds(result: BenchResult) -> dict[World, list[LauncherTimes]]:
    found: dict[World, list[LauncherTimes]] = {}
    for each in result.measurements:
        times = _times(each)
        if times is not None:
            found.setdefault(each.world, []).append(times)
    return found


def _times(each: Measurement) -> LauncherTimes | None:
    """None of a measurement that says something else: a file may hold anything."""
    said = each.details
    name, version, nodes, left = (said.get(key) for key in ("launcher", "version", "nodes", "left"))
    if not (isinstance(name, str) and isinstance(version, str) and type(nodes) is int and type(left) is int):
        return None
    lists = {key: said.get(key) for key in TIMES}
    if not all(isinstance(values, list) and all(map(is_number, values)) for values in lists.values()):
        return None
    times = {key: [float(value) for value in values or ()] for key, values in lists.items()}
    return LauncherTimes(name, version, each.world, nodes, times, left, each.failure)


def _row(each: LauncherTimes) -> tuple[str, ...]:
    times = (_time_text(each.times[name]) for name in TIMES)
    return (each.name, each.version, *times, str(each.left), each.failure)


def _time_text(times: list[float]) -> str:
    """ "0.071 (0.068–0.090)"; of one round, that."""
    if not times:
        return "—"
    median = f"{statistics.median(times):.3f}"
    return median if len(times) == 1 else f"{median} ({min(times):.3f}–{max(times):.3f})"


def _compare(world: World, rows: list[LauncherTimes]) -> list[str]:
    own = next((each for each in rows if each.name == _WORLDSIZE), None)
    if own is None:
        return []
    found = []
    for name, title in TIMES.items():
        base = own.median(name)
        others = [(each.name, median) for each in rows if each is not own and (median := each.median(name)) is not None]
        if base is None or base <= 0:
            continue
        ratios = ", ".join(f"{other} {median:.2f} s ({median / base:.2g} ×)" for other, median in others)
        found.append(f"{world}: {title}: worldsize {base:.2f} s" + (f"; {ratios}." if ratios else "."))
    return found
