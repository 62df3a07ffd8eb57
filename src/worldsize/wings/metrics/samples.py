"""The reader for the agents' samples in the `attempt-N/samples/node-NNNN.jsonl` of one attempt.

Lines that are cut off, or are no samples, are left out. So is a sample that is not newer than the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.agent.records import NodeSample, NodeUse, SamplesHeader, from_line
from worldsize.wings.metrics.run_files import whole_lines

MAX_BYTES = 256 << 20
"""The most bytes that are read of a file. Of a longer file, only the newest bytes are read: without the header, nothing
of it is used."""

MAX_SAMPLES = 2000
"""The most samples of a node. Of more, evenly spaced ones are kept. Their counters are cumulative, so nothing is
lost."""

_MAX_LINES = 1 << 20

_LONG_NUMBER = re.compile(rb"\d{19}")
"""The pattern of a number that may overflow in calculations."""

Record = TypeVar("Record", bound=tuple[Any, ...])


class NodeSamples(NamedTuple):
    """The samples of one node in one attempt, in the order of time. `use` is None until the attempt has ended, and if
    its agent could not write it."""

    header: SamplesHeader
    samples: tuple[NodeSample, ...]
    use: NodeUse | None


class SampleLine(msgspec.Struct):
    """The line of a sample in the format that agents write. Other forms of a sample are parsed more slowly."""

    sample: NodeSample


_DECODER = msgspec.json.Decoder(SampleLine)


def read_node_samples(paths: RunPaths, node_rank: int, most: int = MAX_SAMPLES) -> NodeSamples | None:
    """Return at most `most` samples of the resource use of one node in the attempt of `paths`, with their header and
    the total use; None if the node's file has no valid header."""
    header: SamplesHeader | None = None
    use: NodeUse | None = None
    lines: list[bytes] = []
    for piece in whole_lines(paths.samples(node_rank), MAX_BYTES):
        for line in piece.splitlines():
            if header is None:
                header = _record(SamplesHeader, line)
            elif line.startswith(b'{"use"'):
                use = _record(NodeUse, line) or use
            elif len(lines) < _MAX_LINES:
                lines.append(line)
    if header is None:
        return None
    return NodeSamples(header, _in_order(_chosen(lines, most)), use)


def _record(kind: type[Record], line: bytes) -> Record | None:
    found = from_line(line)
    return found if isinstance(found, kind) else None


def _chosen(lines: Sequence[bytes], most: int) -> list[NodeSample]:
    """Return the samples of at most `most` evenly spaced lines of a node's samples file, including the first and the
    last line."""
    chosen: Iterable[int] = range(len(lines))
    if len(lines) > most:
        chosen = sorted({round(at * (len(lines) - 1) / (most - 1)) for at in range(most)})
    found = (_sample(lines[number]) for number in chosen)
    return [sample for sample in found if sample is not None]


def _sample(line: bytes) -> NodeSample | None:
    if not _LONG_NUMBER.search(line):
        try:
            return _DECODER.decode(line).sample
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass  # an object, or a line with values that a newer release has added
    return _record(NodeSample, line)


def _in_order(samples: Sequence[NodeSample]) -> tuple[NodeSample, ...]:
    kept: list[NodeSample] = []
    for sample in samples:
        if not kept or sample.time > kept[-1].time:
            kept.append(sample)
    return tuple(kept)
