"""Judgement of the GPUs that multiply slower than the others, and of the nodes whose NCCL is slow, in both rounds.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import bytes_text
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.gpu.device import gpus_text
from worldsize.wings.checks.agent.judgement.answers import number_in
from worldsize.wings.checks.agent.judgement.pairs import against_others
from worldsize.wings.checks.agent.judgement.rounds import ROUNDS, answer_of, gathering_rates, gpu_reports, groups_of

COMPUTE_ID, NETWORK_ID = "speed.compute", "speed.network"
PRODUCTS, NCCL = "matrix products on GPUs", "NCCL with two other nodes"

SLOW, VERY_SLOW = 0.75, 0.5
"""Shares of the median of the other GPUs of the same model below which a GPU is slow and very slow (0.75: NVIDIA's
resiliency extension calls that a straggler)."""

SLOW_NETWORK = 0.5
FEWEST = 4
"""The number of GPUs of a model from which on their median is meaningful."""

OF_PEAK = 0.25
"""The share of the data sheet's figure below which a GPU is slow, if there are fewer GPUs. Products of 8192 rows reach
0.5 to 0.8 of that figure."""

PEAKS = (
    ("B200", 2250e12), ("H200 NVL", 835e12), ("H200", 989e12), ("H100 PCIe", 756e12), ("H100 NVL", 835e12),
    ("H100", 989e12), ("A100", 312e12), ("L40S", 362e12), ("A10G", 70e12), ("A10", 125e12), ("V100", 112e12),
    ("T4", 65e12),
)  # fmt: skip
"""16-bit operations per second without sparsity, by the words of a model's name (NVIDIA's data sheets)."""

_PART = re.compile(r"\bMIG\b|-[0-9]+[ABCQ]$")
"""Pattern in the names of parts of a GPU: of MIG, or of a virtual machine ("NVIDIA A10-4Q")."""

_GPU_HINT = "heat, a power limit or a failing GPU: see gpu.throttle and gpu.ecc, or leave the node out (--exclude-bad)"
_NETWORK_HINT = "see fabric.ports and transport.nccl of this node, or leave it out (--exclude-bad)"


class _Gpu(NamedTuple):
    """A GPU with its operations per second in both rounds; None for a round in which they were not reported."""

    node: CheckedNode
    number: int
    model: str
    flops: tuple[float | None, ...]


def gpu_rows(cluster: Cluster) -> list[CheckRow]:
    """Return the rows of the node check, speed.compute and speed.network, for nodes with slow GPUs or a slow NCCL; one
    row for all nodes if there are GPUs and none is slow."""
    asked = [node for node in cluster.nodes if any("gpus" in answer_of(node, name) for name in ROUNDS)]
    gpus = [gpu for node in asked for gpu in _gpus(node)]
    known = [gpu for gpu in gpus if None not in gpu.flops]
    rows = [*_unknown_rows(asked, known), *_slow_rows(known)]
    return rows + _fine_rows(known, rows) + _network_rows(cluster, asked)


def _gpus(node: CheckedNode) -> list[_Gpu]:
    rounds = [gpu_reports(node, name) for name in ROUNDS]
    count = min(map(len, rounds))
    return [
        _Gpu(node, i, str(rounds[0][i].get("model", "")), tuple(number_in(each[i], "flops") for each in rounds))
        for i in range(count)
    ]


def _unknown_rows(asked: Sequence[CheckedNode], known: Sequence[_Gpu]) -> list[CheckRow]:
    """Return a row of the node check for each node of `asked` with a GPU that did not report its speed in both
    rounds."""
    counted = Counter(gpu.node.node_rank for gpu in known)
    return [
        CheckRow(node.label, COMPUTE_ID, PRODUCTS, _why(node), UNKNOWN, "the measurement did not end on this node")
        for node in asked
        if not counted[node.node_rank] or any(counted[node.node_rank] < len(gpu_reports(node, name)) for name in ROUNDS)
    ]


def _why(node: CheckedNode) -> str:
    errors = [str(each["error"]) for name in ROUNDS for each in gpu_reports(node, name) if "error" in each]
    return " ".join(errors[0].split())[:200] if errors else "no figure in time"


def _slow_rows(known: Sequence[_Gpu]) -> list[CheckRow]:
    """Return a row of the node check for each node with a slow GPU, on its slowest one."""
    found: dict[int, CheckRow] = {}
    for model in sorted({gpu.model for gpu in known}):
        same = [gpu for gpu in known if gpu.model == model]
        for gpu, row in _rows_by_others(same) if len(same) >= FEWEST else _rows_by_data_sheet(same):
            found.setdefault(gpu.node.node_rank, row)
    return list(found.values())


def _rows_by_others(same: Sequence[_Gpu]) -> list[tuple[_Gpu, CheckRow]]:
    """Return each slow GPU of `same`, GPUs of one model, with its row of the node check, compared with the median of
    the others, the slowest first."""
    rounds = [against_others({at: gpu.flops[turn] or 0.0 for at, gpu in enumerate(same)}) for turn in (0, 1)]
    ratios = sorted((max(each[at] for each in rounds), at) for at in range(len(same)))
    return [
        (same[at], _slow_row(same[at], f"{ratio:.0%} of the other GPUs' median", BAD if ratio < VERY_SLOW else WARNING))
        for ratio, at in ratios
        if ratio < SLOW
    ]


def _rows_by_data_sheet(same: Sequence[_Gpu]) -> list[tuple[_Gpu, CheckRow]]:
    found = sorted((_of_peak(gpu), at) for at, gpu in enumerate(same))
    return [
        (same[at], _slow_row(same[at], f"{share:.0%} of its data sheet's figure", WARNING))
        for share, at in found
        if share < OF_PEAK
    ]


def _of_peak(gpu: _Gpu) -> float:
    """Return the speed of a GPU as a share of the data sheet's figure; 1.0 if its model is not in the table, or if it
    is a part of a GPU."""
    words = set(gpu.model.replace("-", " ").split())
    peak = next((peak for name, peak in PEAKS if words.issuperset(name.split())), 0.0)
    return max(each or 0.0 for each in gpu.flops) / peak if peak and not _PART.search(gpu.model) else 1.0


def _slow_row(gpu: _Gpu, words: str, verdict: str) -> CheckRow:
    value = f"GPU {gpu.number}: {_teraflops(gpu)} TFLOPS, {words}, twice"
    return CheckRow(gpu.node.label, COMPUTE_ID, PRODUCTS, value, verdict, _GPU_HINT)


def _teraflops(gpu: _Gpu) -> str:
    return f"{max(each or 0.0 for each in gpu.flops) / 1e12:.3g}"


def _fine_rows(known: Sequence[_Gpu], rows: Sequence[CheckRow]) -> list[CheckRow]:
    if rows or not known:
        return []
    ordered = sorted(known, key=lambda gpu: max(each or 0.0 for each in gpu.flops))
    value = f"{gpus_text(len(known))}, {_teraflops(ordered[0])} to {_teraflops(ordered[-1])} TFLOPS each"
    return [CheckRow("", COMPUTE_ID, PRODUCTS, value, OK)]


def _network_rows(cluster: Cluster, asked: Sequence[CheckedNode]) -> list[CheckRow]:
    rates = [gathering_rates(asked, name) for name in ROUNDS]
    both = [node for node in asked if all(node.node_rank in each for each in rates)]
    if not both:
        return []
    ratios = [against_others(each) for each in rates]
    partners = [_partners(groups) for groups in groups_of(cluster)]
    slow = [node for node in both if len(both) > 2 and _is_slow(node.node_rank, ratios, partners)]
    rows = [_network_row([node], rates, WARNING) for node in slow]
    return rows or [_network_row(both, rates, OK)]


def _partners(groups: Sequence[tuple[int, ...]]) -> dict[int, set[int]]:
    return {rank: set(group) - {rank} for group in groups for rank in group}


def _is_slow(rank: int, ratios: Sequence[Mapping[int, float]], partners: Sequence[Mapping[int, set[int]]]) -> bool:
    """Return whether the NCCL rate of the node `rank` was slow in both rounds with different partners, at least one of
    which was not slow in the other round, without this node. `ratios` and `partners` are those of each round, by the
    nodes' ranks."""
    first, second = (each.get(rank, set()) for each in partners)
    if first & second or any(each[rank] >= SLOW_NETWORK for each in ratios):
        return False
    fine = [ratios[1].get(other, 0.0) for other in first] + [ratios[0].get(other, 0.0) for other in second]
    return any(ratio >= SLOW_NETWORK for ratio in fine)


def _network_row(nodes: Sequence[CheckedNode], rates: Sequence[Mapping[int, float]], verdict: str) -> CheckRow:
    found = [each[node.node_rank] for node in nodes for each in rates]
    value = f"{bytes_text(min(found))}/s to {bytes_text(max(found))}/s received by a rank in an all-gather"
    label, hint = (nodes[0].label, _NETWORK_HINT) if verdict != OK else ("", "")
    return CheckRow(label, NETWORK_ID, NCCL, value, verdict, hint)
