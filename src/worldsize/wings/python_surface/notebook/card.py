"""The card of a run, or of an array of runs, in a notebook: one piece of HTML.

It sets no background. The only colour is that of the state, which is readable on light and dark pages. It loads
nothing, and contains no script. All text of jobs and ranks is escaped, and the output of ranks is masked as everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape

from worldsize.cli.console import duration_text, size_text, tags_text
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.errors import WorldsizeError
from worldsize.logs.tail import last_lines
from worldsize.logs.text import escape as escape_controls
from worldsize.logs.text import format_ranges, without_colours
from worldsize.plan.array import element_id
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.failure_screen import failure_data
from worldsize.service.runs.masks import text_masker
from worldsize.service.runs.measurements import progress_text
from worldsize.service.runs.run import Run
from worldsize.state.array import count_states
from worldsize.state.exit_records import read_exit
from worldsize.state.records import Status
from worldsize.state.summary import known_labels

_COLOURS = {
    "SUCCEEDED": "#2e9e4f",
    "FAILED": "#d64545",
    "LOST": "#d64545",
    "CANCELLED": "#c07f00",
    "RUNNING": "#2f81d6",
}
_FRAME = "border:1px solid;border-radius:6px;padding:.6em .9em;max-width:60em;overflow-x:auto"
_CELL = "text-align:left;padding:.1em 1.2em .1em 0;vertical-align:top"
_MOST_ROWS = 16
_LINE = 200
"""The number of characters of a line that are shown."""

Rows = Sequence[Sequence[str]]


def card_html(runs: Run | RunArray, statuses: Sequence[Status]) -> str:
    """Return the notebook card of a run, or of an array of runs, as HTML. It shows `statuses`, those of the last look,
    and the run's files as they are now. Never raise for a damaged run."""
    now = runs.overall(statuses)
    parts = [_headline(runs.id, now)]
    try:
        if runs.has_plan():
            parts += _parts(runs, statuses)
        elif now.message:
            parts.append(_line(now.message))
    except (WorldsizeError, OSError, *PARSE_ERRORS) as error:
        parts.append(_line(f"its files cannot be read: {error}"))
    return f'<div style="{_FRAME}">{"".join(parts)}</div>'


def card_text(runs: Run | RunArray, statuses: Sequence[Status]) -> str:
    """Return one line of plain text with the id and state of a run or an array of runs, for displays without HTML."""
    return f"{type(runs).__name__}({runs.id!r}) {runs.overall(statuses).state}"


def _headline(run_id: str, now: Status) -> str:
    colour = f' style="color:{_COLOURS[now.state]}"' if now.state in _COLOURS else ""
    reason = f" ({_text(now.reason)})" if now.reason else ""
    return f"<div><b{colour}>{_text(now.state)}</b>{reason} <code>{_text(run_id)}</code></div>"


def _parts(runs: Run | RunArray, statuses: Sequence[Status]) -> list[str]:
    now = runs.overall(statuses)
    took = f", {duration_text((now.ended or time.time()) - now.started)}" if now.started is not None else ""
    size = f"{size_text(runs)}; world size {runs.size[1]}"
    parts = [_line(f"{runs.common.name}: {size}{took}"), *map(_line, _label_texts(runs))]
    more = _run_parts(runs, now) if isinstance(runs, Run) else _array_parts(runs, statuses)
    return [*parts, *more]


def _label_texts(runs: Run | RunArray) -> list[str]:
    said = known_labels(runs.common.labels)
    found = {"experiment": said["experiment_name"], "tags": tags_text(said["tags"]), "description": said["description"]}
    return [f"{name}: {text}" for name, text in found.items() if text]


def _run_parts(run: Run, now: Status) -> list[str]:
    parts = [_nodes_table(run)]
    progress = progress_text(run, now)
    if progress:
        parts.append(_line(progress))
    failure = failure_data(run.paths, run.plan, now)
    if failure is not None:
        hint = f"what to do: {failure['hint']}" if failure["hint"] else ""
        parts += [_line(text) for text in (*without_colours(failure["message"]).split("\n"), hint) if text]
    elif now.final and now.message:
        parts.append(_line(now.message))
    mask = text_masker(run.paths, run.plan)
    for line in last_lines(run.paths.rank_log(0), 1):
        parts.append(_titled("rank 0", without_colours(mask(line))))
    return parts


def _nodes_table(run: Run) -> str:
    """Render an HTML table of a run's first 16 nodes: the ranks of each node, and the host name and exit codes of a
    node that has ended."""
    rows = []
    for node in run.plan.nodes[:_MOST_ROWS]:
        record = read_exit(run.paths, node.node_rank)
        ranks = [rank.rank for rank in node.ranks]
        codes = format_ranges(sorted({each.code for each in record.ranks})) if record else ""
        rows.append([str(node.node_rank), format_ranges(ranks), record.host if record else "", codes])
    return _table(["node", "ranks", "host", "exit codes"], rows, len(run.plan.nodes))


def _array_parts(array: RunArray, statuses: Sequence[Status]) -> list[str]:
    counts = ", ".join(f"{number} {state}" for state, number in count_states(statuses).items())
    rows = []
    for number, status in enumerate(statuses[:_MOST_ROWS]):
        values = " ".join("{}={}".format(*item) for item in array.values(number).items())
        what = ": ".join(filter(None, [status.reason, status.message.partition("\n")[0]]))
        rows.append([element_id(array.id, number), values, status.state, what])
    return [_line(counts), _table(["run", "inputs", "state", "reason"], rows, len(statuses))]


def _table(headers: Sequence[str], rows: Rows, total: int) -> str:
    """Render an HTML table with the column titles `headers`. Columns without any value are omitted. If `total` is
    larger than the number of `rows`, a line states how many rows are missing."""
    shown = [column for column in range(len(headers)) if any(row[column] for row in rows)]
    head = "".join(f'<th style="{_CELL}">{headers[column]}</th>' for column in shown)
    body = "".join(_row(row[column] for column in shown) for row in rows)
    more = _line(f"… and {total - len(rows)} more") if total > len(rows) else ""
    return f'<table style="border-collapse:collapse"><tr>{head}</tr>{body}</table>{more}'


def _row(cells: Iterable[str]) -> str:
    return "<tr>{}</tr>".format("".join(f'<td style="{_CELL}">{_text(cell)}</td>' for cell in cells))


def _line(text: str) -> str:
    return f"<div>{_text(text)}</div>"


def _titled(title: str, text: str) -> str:
    return f"<div>{_text(title)}: <code>{_text(text)}</code></div>"


def _text(text: str) -> str:
    """Return `text` escaped for HTML: in one line, truncated, without markup or characters that cannot be encoded."""
    cut = text if len(text) <= _LINE else text[:_LINE] + "…"
    return escape(escape_controls(cut).encode("utf-8", "replace").decode("utf-8"))
