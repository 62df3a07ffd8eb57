"""The connections between GPUs, read from `nvidia-smi topo -m` and `nvidia-smi nvlink -s`.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_GPU_LINE = re.compile(r"GPU (\d{1,3}): ([^(\n]{1,100}?)\s*(?:\(UUID.*)?$")
_LINK_LINE = re.compile(r"\s+Link (\d{1,3}): (.{1,60})$")
_KINDS = re.compile(r"SYS|SOC|NODE|PHB|PXB|PIX|PSB|C2C|NV\d{1,3}")
_SWITCHED = re.compile(r"\bA[18]00.SXM|\bH[128]00\b|\bH20\b|\bB[123]00\b|\bGB[23]00\b")
_CARDS = re.compile(r"PCIe|NVL\b|PG5")


class NvLinks(NamedTuple):
    """The NVLinks of a GPU: how many are up, and how many there are."""

    gpu: int
    model: str
    up: int
    all: int


def is_switched(model: str) -> bool:
    """Return whether GPUs of the given `model` are on boards that connect each GPU with every other by NVLink,
    according to the model's name: those of Ampere and later that are not PCIe cards. On boards of V100 and P100 some
    pairs have no NVLink. Cards have bridges for some pairs, or none."""
    return bool(_SWITCHED.search(model)) and not _CARDS.search(model)


def parse_topology(text: str) -> dict[tuple[int, int], str]:
    """Parse the output of `nvidia-smi topo -m`. Return the connection of each pair of GPUs, by their numbers, the lower
    one first: "NV18", "PIX", "SYS". Empty if the text contains no matrix."""
    lines = [line.split() for line in _COLOUR.sub("", text).splitlines()[:600]]
    lines = [line for line in lines if line and line[0].startswith("GPU")]
    columns = [_gpu_number(word) for word in next((line for line in lines if "X" not in line), [])]
    found = {}
    for row, line in ((_gpu_number(line[0]), line) for line in lines if "X" in line):
        for column, kind in zip(columns, line[1:]):
            if row is not None and column is not None and row < column and _KINDS.fullmatch(kind):
                found[row, column] = kind
    return found


def parse_nvlinks(text: str) -> list[NvLinks]:
    """Parse the output of `nvidia-smi nvlink -s`. Return the NvLinks of each GPU that has any. A link is up if its
    speed is shown; others are `<inactive>`."""
    found: list[NvLinks] = []
    for line in text.splitlines()[:20_000]:
        gpu, link = _GPU_LINE.match(line), _LINK_LINE.match(line)
        if gpu:
            found.append(NvLinks(int(gpu[1]), gpu[2], 0, 0))
        elif link and found:
            last = found[-1]
            found[-1] = last._replace(up=last.up + ("GB/s" in link[2]), all=last.all + 1)
    return [each for each in found if each.all]


def _gpu_number(word: str) -> int | None:
    return parse_digits(word[3:]) if word.startswith("GPU") else None
