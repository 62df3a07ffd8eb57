"""Comparison of launchers as tables, sentences and charts."""

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
"""The times that are measured, by their names in `details`: from the start of the command until all ranks have started,
and until they have met; from the end of the ranks, or from the failure of one, until no process remains."""
_WORLDSIZE = "worldsize"
_KNOWN_TO = 0.01
"""The precision of an end in seconds. Remaining processes are searched for repeatedly."""


class LauncherTimes(NamedTuple):
    """The times of one launcher in one world. `times` are the seconds of each round, by the names in TIMES. `endless`
    is the number of seconds that it kept running after a rank's failure; 0: it has always ended."""

    name: str
    version: str
    world: World
    nodes: int
    times: dict[str, list[float]]
    endless: float
    left: int
    failure: str


def tables(result: BenchResult) -> tuple[Table, ...]:
    """Return a table of the launch benchmark's `result` for each world, with the median, the minimum and the maximum of
    each time of each launcher."""
    headers = ("launcher", "version", *(f"{name}, s" for name in TIMES.values()), "left", "")
    return tuple(
        Table(f"{world}, {world.ranks} ranks", headers, tuple(_row(each) for each in rows))
        for world, rows in _worlds(result).items()
    )


def sentences(result: BenchResult) -> tuple[str, ...]:
    """Return sentences on the launch benchmark's `result` for each world: the times of worldsize, and how the other
    launchers compare, whether they are faster or slower. Then failures are listed, and conditions that make the times
    not comparable."""
    found = [sentence for world, rows in _worlds(result).items() for sentence in _sentences_of(world, rows)]
    crowded = {f"{each.world}: {each.oversubscribed}.": None for each in result.measurements if each.oversubscribed}
    if not result.measurements:
        return ("Nothing was measured.",)
    if result.settings.get("rounds") == "1":
        found.append("From one round: the spread of these times is unknown.")
    return (*found, *crowded) or ("Nothing is compared: worldsize was not measured.",)


def _sentences_of(world: World, rows: list[LauncherTimes]) -> list[str]:
    found = [sentence for name in TIMES if (sentence := _comparison(name, rows))]
    found += [f"{each.name}: {each.failure}." for each in rows if each.failure]
    found += [_endless_text(each) for each in rows if each.endless]
    found += [f"{each.name} left {_processes(each.left)} behind." for each in rows if each.left]
    elsewhere = [each.name for each in rows if each.nodes < world.nodes]
    if elsewhere:
        found.append(f"{', '.join(elsewhere)} had all {world.ranks} ranks on one node.")
    return [f"{world}: {each}" for each in found]


def _comparison(name: str, rows: list[LauncherTimes]) -> str:
    """Return a sentence that compares one measured time (`name`, a key of TIMES) of worldsize and of the other
    launchers, such as "end: worldsize 0.016 s; torchrun 0.820 s (51 times as long)."; "" if worldsize was not measured.
    """
    own = next((each.times[name] for each in rows if each.name == _WORLDSIZE), [])
    if not own:
        return ""
    others = [
        f"{each.name} {_seconds(statistics.median(each.times[name]))} ({_ratio(each.times[name], own)})"
        for each in rows
        if each.name != _WORLDSIZE and each.times[name]
    ]
    return f"{TIMES[name]}: worldsize {_seconds(statistics.median(own))}{'; ' if others else ''}{', '.join(others)}."


def _seconds(time: float) -> str:
    return f"{time:.3f} s" if time < 1 else f"{time:.2f} s"


def _ratio(times: list[float], own: list[float]) -> str:
    """Return in words how the `times` of a launcher compare with worldsize's, `own`, such as "51 times as long". There
    is no ratio if the ranges overlap, or if the medians differ too little."""
    if min(times) <= max(own) and min(own) <= max(times):
        return "no clear difference"
    time, base = statistics.median(times), statistics.median(own)
    ratio = max(time, base) / max(min(time, base), 1e-6)
    if ratio < 1.05 or abs(time - base) < _KNOWN_TO:
        return "no clear difference"
    return f"{ratio:.{0 if ratio >= 9.95 else 1}f} times as {'long' if time > base else 'fast'}"


def _endless_text(each: LauncherTimes) -> str:
    """Return a sentence on a launcher that does not end after a rank's failure. Hydra of MPICH 5.0.2 was observed to
    terminate the ranks of MPI programs at once, and no others."""
    why = ": it ends others where they have called MPI_Init, which these have not" if "MPICH" in each.version else ""
    return f"{each.name} continues for more than {each.endless:g} s after a rank has failed{why}."


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def charts(result: BenchResult, pictures: Any) -> tuple[Any, ...]:
    """Return a bar chart over the number of ranks for each time that the launch benchmark measures, with the bars of
    all launchers. If several worlds have the same number of ranks, those of several nodes get bars of their own."""
    worlds = _worlds(result)
    by_nodes = len({world.ranks for world in worlds}) < len(worlds)
    bars: dict[str, list[LauncherTimes]] = {}
    for each in (each for rows in worlds.values() for each in rows):
        label = f"{each.name}, {each.nodes} nodes" if by_nodes and each.nodes > 1 else each.name
        known = bars.setdefault(label, [])
        if each.world.ranks not in (other.world.ranks for other in known):
            known.append(each)
    found = (_chart(name, title, bars, pictures) for name, title in TIMES.items())
    return tuple(chart for chart in found if chart.lines)


def _chart(name: str, title: str, bars: dict[str, list[LauncherTimes]], pictures: Any) -> Any:
    """Return the bar chart of one measured time, with the key `name` and the title `title` of TIMES. A launcher without
    this time keeps its place, so that each launcher has the same colour in all charts."""
    timed = {label: [each for each in rows if each.times[name]] for label, rows in bars.items()}
    lines = tuple(_bars(label, rows, name, pictures) for label, rows in timed.items())
    return pictures.Chart(
        title=title.capitalize(),
        lines=lines if any(line.xs for line in lines) else (),
        x_label="ranks",
        y_label="s",
        kind="bar",
    )


def _bars(label: str, rows: list[LauncherTimes], name: str, pictures: Any) -> Any:
    return pictures.Line(
        label,
        tuple(float(each.world.ranks) for each in rows),
        tuple(statistics.median(each.times[name]) for each in rows),
        lows=tuple(min(each.times[name]) for each in rows),
        highs=tuple(max(each.times[name]) for each in rows),
    )


def _worlds(result: BenchResult) -> dict[World, list[LauncherTimes]]:
    found: dict[World, list[LauncherTimes]] = {}
    for each in result.measurements:
        times = _times(each)
        if times is not None:
            found.setdefault(each.world, []).append(times)
    return found


def _times(each: Measurement) -> LauncherTimes | None:
    """Return the LauncherTimes of a measurement of the launch benchmark; None if its details are not those of a
    launcher. The details in a result file may be anything."""
    said = each.details
    name, version, nodes, left = (said.get(key) for key in ("launcher", "version", "nodes", "left"))
    if not (isinstance(name, str) and isinstance(version, str) and type(nodes) is int and type(left) is int):
        return None
    lists = {key: said.get(key) for key in TIMES}
    if not all(isinstance(values, list) and all(map(is_number, values)) for values in lists.values()):
        return None
    times = {key: [float(value) for value in values or ()] for key, values in lists.items()}
    endless = said.get("endless", 0.0)
    return LauncherTimes(
        name, version, each.world, nodes, times, endless if is_number(endless) else 0.0, left, each.failure
    )


def _row(each: LauncherTimes) -> tuple[str, ...]:
    times = [_time_text(each.times[name]) for name in TIMES]
    if each.endless:
        times[-1] = f"> {each.endless:g}"
    return (each.name, each.version, *times, str(each.left), each.failure)


def _time_text(times: list[float]) -> str:
    """Format the median and the range of `times` in seconds: "0.071 (0.068–0.090)". A single time has no range; "—"
    without any."""
    if not times:
        return "—"
    median = f"{statistics.median(times):.3f}"
    return median if len(times) == 1 else f"{median} ({min(times):.3f}–{max(times):.3f})"
