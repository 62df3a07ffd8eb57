"""The charts of a page. Without matplotlib, one sentence replaces them."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.cli.console import count_text
from worldsize.common.named_tuple import Any
from worldsize.errors import ConfigError
from worldsize.wings.report.facts import Child

_OPEN = 6


def draw_charts(pictures: Any, charts: Sequence[Any]) -> list[Child]:
    """Draw charts for a report page, and return them as page elements; those after the first few are folded. If a
    package is missing, return a sentence that names it instead."""
    if not charts:
        return []
    try:
        found = [pictures.scrolling(pictures.draw_chart(chart), chart.title) for chart in charts]
    except ConfigError as error:
        hint = f": {error.hint}" if error.hint else ""
        return [pictures.element("p", f"Charts are left out: {error.what}{hint}", class_="muted")]
    folded = found[_OPEN:]
    return [*found[:_OPEN], *([pictures.details(count_text(len(folded), "more chart"), *folded)] if folded else [])]
