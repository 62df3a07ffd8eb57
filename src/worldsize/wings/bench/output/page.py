"""A result as an HTML page in one file: the recommendation, the picture, the tables, and the conditions of the
measurement."""

from __future__ import annotations

from datetime import datetime, timezone

from worldsize.common.named_tuple import Any
from worldsize.wings.bench.output.derived import answer_of
from worldsize.wings.bench.published.matching import is_standard, published_sources
from worldsize.wings.bench.result import BenchResult
from worldsize.wings.bench.scaling.recommendation import LEAST_EFFICIENCY, LEAST_MARGINAL_EFFICIENCY
from worldsize.wings.bench.scaling.wording import amount_text, percent_text

_COLUMNS = {
    "middle half": "of the single values, the spread; all of them where they are fewer than four",
    "speed-up": "how many times as much work in a second as the smallest world that was measured",
    "efficiency": "the speed-up by how many times as many ranks; none where ranks share cores or GPUs",
    "communication": "the share of a step in which ranks wait for each other",
    "GPU-hours, node-hours": "for which the run held its GPUs, or its nodes",
    "cost": "GPU-hours, or node-hours, for the same work, as a multiple of the smallest world's",
}


def page_bytes(result: BenchResult, picture: bytes | None, pictures: Any, against: BenchResult | None = None) -> bytes:
    """Return the HTML page of a benchmark's `result`, compared with the earlier result `against` if that is given.
    `pictures` is the provider of that name. `picture` is an SVG; None if none can be drawn."""
    answer = answer_of(result, against)
    sections = [
        _sentences(answer.sentences, pictures),
        *([pictures.section("picture", "Picture", picture)] if picture else []),
        pictures.section("tables", "Tables", *(_table(table, pictures) for table in answer.tables)),
        *_facts(result, pictures),
        *_sources(result, pictures),
        *_runs(result, pictures),
        *([_method(pictures)] if result.scaling else []),
    ]
    return bytes(pictures.make_page(result.title, _head(result, pictures), *sections))


def _head(result: BenchResult, pictures: Any) -> Any:
    pairs = [
        ("benchmark", f"worldsize bench {result.kind}"),
        ("compute", result.compute),
        ("measured", _moment_text(result.created)),
        ("worldsize", result.worldsize),
    ]
    if result.scaling:
        pairs.append(("scaling", f"{result.scaling}: {_SCALINGS.get(result.scaling, '')}"))
    return pictures.key_values([*pairs, *result.settings.items()])


_SCALINGS = {"weak": "the work grows with the ranks", "strong": "the work stays the same"}


def _moment_text(created: float) -> str:
    try:
        return datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _sentences(sentences: tuple[str, ...], pictures: Any) -> Any:
    """Return the section of the HTML page that contains the result's sentences. The first one, the recommendation, is
    emphasised."""
    first, rest = sentences[:1], sentences[1:]
    lines = [pictures.element("p", pictures.element("strong", sentence)) for sentence in first]
    lines += [pictures.element("p", sentence) for sentence in rest]
    return pictures.section("result", "Result", *lines)


def _table(table: Any, pictures: Any) -> Any:
    return pictures.table(table.headers, table.rows, table.caption)


def _facts(result: BenchResult, pictures: Any) -> list[Any]:
    shown = (("hardware", "Hardware", result.hardware), ("software", "Software", result.software))
    return [pictures.section(id, title, pictures.key_values(rows)) for id, title, rows in shown if rows]


def _sources(result: BenchResult, pictures: Any) -> list[Any]:
    """Return the section of the HTML page with links to the published figures that the result is compared with. If
    there are none, the section states this for a result with standard settings; for any other result the list is empty.
    """
    sources = published_sources(result)
    if not sources:
        text = "None is known for these GPUs, as many of them, and this precision."
        return [pictures.section("published", "Published figures", text)] if is_standard(result) else []
    links = [pictures.element("li", pictures.element("a", name, href=link)) for name, link in sources.items()]
    text = 'Read there, not measured here; "best known" is reached with every optimisation, and is not what to expect.'
    return [
        pictures.section("published", "Published figures", pictures.element("p", text), pictures.element("ul", *links))
    ]


def _runs(result: BenchResult, pictures: Any) -> list[Any]:
    rows = [
        (str(each.world), each.run, amount_text(each.held), each.failure or each.oversubscribed)
        for each in result.measurements
        if each.run
    ]
    if not rows:
        return []
    return [pictures.section("runs", "Runs", pictures.table(("world", "run", "seconds held", "remark"), rows))]


def _method(pictures: Any) -> Any:
    rule = (
        f"Recommended is the largest world with an efficiency of at least {percent_text(LEAST_EFFICIENCY)} whose "
        f"additional ranks do at least {percent_text(LEAST_MARGINAL_EFFICIENCY)} of what a rank of the smallest world "
        "does, and that is clearly faster than the one before: their spreads do not overlap."
    )
    body = (pictures.key_values(_COLUMNS.items()), pictures.element("p", rule))
    return pictures.section("method", "How to read it", *body)
