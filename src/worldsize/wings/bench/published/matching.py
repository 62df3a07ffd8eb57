"""Selection of the published figures for the same GPUs, the same number of them, and the same precision. No other
figures are shown."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.bench.published.figures import PUBLISHED, Published
from worldsize.wings.bench.result import BenchResult, Measurement, Table
from worldsize.wings.bench.scaling.curve import usable_rate
from worldsize.wings.bench.scaling.wording import amount_text, percent_text

_TF32_MODELS = ("A100", "A30", "A40", "H100", "H200", "B200", "GH200")
_OFF = ("off", "no", "false", "0", "none", "highest")
_MOST_LINES = 3


class Match(NamedTuple):
    """A world that was measured, and a published figure for such a world."""

    measurement: Measurement
    rate: float
    published: Published
    figure: float


def published_matches(result: BenchResult) -> list[Match]:
    """Return the measurements of a ResNet-50 benchmark for whose GPUs, number of GPUs and precision figures are
    published, each with such a figure, as a list of Match in the order of the worlds. Empty unless the result is one of
    `bench resnet50` with standard settings."""
    if not is_standard(result):
        return []
    found = []
    for each in result.measurements:
        rate = usable_rate(each)
        for published in PUBLISHED if rate is not None and not each.oversubscribed else ():
            figure = published.figures.get((each.world.nodes, each.gpus))
            if rate is not None and figure is not None and is_of_same_kind(published, result, each):
                found.append(Match(each, rate, published, figure))
    return found


def is_standard(result: BenchResult) -> bool:
    """Return whether a benchmark's result is one of `bench resnet50` whose title does not mark the network as a
    non-standard one."""
    return result.kind == "resnet50" and "tiny settings" not in result.title


def is_of_same_kind(published: Published, result: BenchResult, measurement: Measurement) -> bool:
    name = gpu_name(result, measurement).replace(" ", "").upper()
    if published.model not in name or published.memory not in name:
        return False
    return published.precision == computed_precision(result, measurement, name)


def gpu_name(result: BenchResult, measurement: Measurement) -> str:
    """Return the model name of the GPU of a measurement as the ranks, or else the nodes, have reported it; "" if
    neither has."""
    device = measurement.details.get("device")
    if isinstance(device, str) and device:
        return device
    return next((value for name, value in result.hardware if name.upper() == "GPU"), "")


def computed_precision(result: BenchResult, measurement: Measurement, gpu: str) -> str:
    """Return the precision in which the ranks of a measurement computed: "tf32" if fp32 is requested and the GPU uses
    19 of the 32 bits for convolutions, unless that is off; otherwise the requested one."""
    precision = _said("precision", result, measurement)
    has_tf32 = any(model in gpu for model in _TF32_MODELS)
    if precision.startswith("fp32") and has_tf32 and _said("tf32", result, measurement) not in _OFF:
        return "tf32"
    return precision.split(" ")[0]


def _said(name: str, result: BenchResult, measurement: Measurement) -> str:
    """Return the value named `name` that the ranks of the measurement have reported, or else that of the benchmark's
    settings, in lower case; "" if there is none."""
    value = measurement.details.get(name) or result.settings.get(name)
    return value.lower() if isinstance(value, str) else ""


def published_table(result: BenchResult) -> Table | None:
    """Return a table that compares the measured rates of a ResNet-50 benchmark with the published figures that match;
    None if nothing is published for such GPUs, this number of them and that precision."""
    matches = sorted(published_matches(result), key=lambda match: match.published.best_known)
    if not matches:
        return None
    headers = ("world", result.unit, "published", "share", "what it is", "hardware", "precision", "data", "source")
    rows = tuple(
        (
            str(match.measurement.world),
            amount_text(match.rate),
            amount_text(match.figure),
            percent_text(match.rate / match.figure),
            "best known" if match.published.best_known else "expected",
            match.published.hardware,
            match.published.precision,
            match.published.data,
            match.published.source[0],
        )
        for match in matches
    )
    return Table("Published figures (read, not measured here)", headers, rows)


def published_sentences(result: BenchResult) -> tuple[str, ...]:
    """Return one sentence, which compares the largest measured world that has a published "expected" figure of the same
    framework with that figure; empty if there is none. Best known figures are not used, because they are no measure for
    a plain script."""
    framework = result.settings.get("framework", "")
    matches = [
        match
        for match in published_matches(result)
        if not match.published.best_known and match.published.framework == framework
    ]
    if not matches:
        return ()
    match = max(matches, key=lambda match: match.measurement.world.ranks)
    published = match.published
    share = f"{match.measurement.world} does {percent_text(match.rate / match.figure)} of the"
    what = f"{amount_text(match.figure)} {result.unit} that are published for {published.hardware}"
    return (f"{share} {what} ({published.precision}, {published.data}; {published.source[0]}).",)


def published_sources(result: BenchResult) -> dict[str, str]:
    """Return the names of the sources of published figures that the result is compared with, and their addresses, as a
    dict."""
    return dict(match.published.source for match in published_matches(result))


def published_lines(result: BenchResult) -> list[tuple[str, list[float], list[float]]]:
    """Return the lines of published figures for the chart of a ResNet-50 benchmark, at most three, each as its name,
    its numbers of GPUs and its rates. Each source that matches a world gives a line with all of its figures up to the
    largest world."""
    matches = published_matches(result)
    most = max((each.world.ranks for each in result.measurements if usable_rate(each) is not None), default=0)
    lines = []
    for published in dict.fromkeys(map(_key, matches)):
        entry = PUBLISHED[published]
        figures = sorted((gpus, rate) for (_, gpus), rate in entry.figures.items() if gpus <= most)
        kind = "best known" if entry.best_known else "expected"
        name = f"{kind}: {entry.source[0].split(', ')[-1]}"
        lines.append((name, [float(gpus) for gpus, _ in figures], [rate for _, rate in figures]))
    return lines[:_MOST_LINES]


def _key(match: Match) -> int:
    return PUBLISHED.index(match.published)
