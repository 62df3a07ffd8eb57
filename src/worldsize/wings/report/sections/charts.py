"""Charts of a page; without matplotlib, one sentence in their place."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any
from worldsize.errors import ConfigError
from worldsize.wings.report.facts import Child


def draw_charts(pictures: Any, charts: Sequence[Any]) -> list[Child]:
    """The charts, beside each other where there is room; the sentence that says what is missing."""
    if not charts:
        return []
    try:
        return [pictures.element("div", *(pictures.draw_chart(chart) for chart in charts), class_="cards")]
    except ConfigError as error:
        hint = f": {error.hint}" if error.hint else ""
        return [pictures.element("p", f"Charts are left out: {error.what}{hint}", class_="muted")]
