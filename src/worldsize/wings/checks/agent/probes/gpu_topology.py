"""Probe for the connections between the GPUs of this node. It finds NVLinks that are down, and pairs of GPUs without
NVLink on boards where all pairs have it.

The values are read from `nvidia-smi topo -m` and `nvidia-smi nvlink -s`, not measured. The stages measure the speed of
the links.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from worldsize.agent.machine.visible_gpus import visible_gpus
from worldsize.common.named_tuple import TypeAlias
from worldsize.state.check_rows import OK, WARNING, CheckRow
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuReport, gpus_text
from worldsize.wings.checks.agent.gpu.links import NvLinks, is_switched, parse_nvlinks, parse_topology
from worldsize.wings.checks.agent.gpu.reader import Run, ask, find_nvidia_smi, is_looked_at, read_gpus
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.programs.program_output import run_program
from worldsize.wings.checks.agent.readers.row_texts import join_texts

_ID, _WHAT = "gpu.topology", "connections between GPUs"
_LIMIT = 4.0

Pairs: TypeAlias = "Mapping[tuple[int, int], str]"


def probe(context: NodeContext, run: Run = run_program) -> ProbeResult:
    """Return the node check's row gpu.topology, about the NVLink and PCIe connections between the node's GPUs. Return
    no row on a node with fewer than two GPUs, without nvidia-smi, or if GPUs do not matter for the job."""
    program = find_nvidia_smi(context) if is_looked_at(context) else None
    report = GpuReport() if program is None else read_gpus(context, run)
    if program is None or len(report.gpus) < 2:
        return ProbeResult()
    deadline = time.monotonic() + _LIMIT
    topology, _, _ = ask(program, ("topo", "-m"), context.environ, run, deadline)
    links, _, _ = ask(program, ("nvlink", "-s"), context.environ, run, deadline)
    return topology_result(context, report.gpus, parse_topology(topology), parse_nvlinks(links))


def topology_result(context: NodeContext, gpus: Sequence[Gpu], pairs: Pairs, links: Sequence[NvLinks]) -> ProbeResult:
    """Judge the connections between the GPUs that the ranks see (`pairs`: kind of connection by two GPU numbers;
    `links`: each GPU's NVLinks), and return the row gpu.topology. Return no row for divided GPUs (MIG), which have no
    NVLink by design, or if nothing could be read."""
    gpus = visible_gpus(gpus, context.environ.get("CUDA_VISIBLE_DEVICES"))
    numbers = {gpu.number for gpu in gpus}
    pairs = {pair: kind for pair, kind in pairs.items() if numbers.issuperset(pair)}
    links = [each for each in links if each.gpu in numbers]
    if any(gpu.mig for gpu in gpus) or (not pairs and not links):
        return ProbeResult()
    row = _links_row(context, links) or _pairs_row(context, gpus, pairs) or _width_row(context, gpus)
    return ProbeResult((row or context.row(_ID, _WHAT, _text(pairs, len(gpus)), OK),))


def _links_row(context: NodeContext, links: Sequence[NvLinks]) -> CheckRow | None:
    """Return a warning row if a GPU has fewer active NVLinks than another GPU of the same model; None otherwise. A card
    without any active link counts only if its model connects all GPUs through a switch: cards with bridges may have no
    bridge."""
    most = {each.model: max(other.up for other in links if other.model == each.model) for each in links}
    fewer = [each for each in links if each.up < most[each.model] and (each.up or is_switched(each.model))]
    if not fewer:
        return None
    words = [f"GPU {each.gpu}: {each.up} of {most[each.model]} NVLinks" for each in fewer]
    hint = "NVLinks are down: ask for another node, and have its GPUs reset"
    return context.row(_ID, _WHAT, join_texts(words, 4, ", "), WARNING, hint)


def _pairs_row(context: NodeContext, gpus: Sequence[Gpu], pairs: Pairs) -> CheckRow | None:
    models = {gpu.number: gpu.model for gpu in gpus}
    switched = {pair: kind for pair, kind in pairs.items() if all(is_switched(models.get(one, "")) for one in pair)}
    slow = [f"GPU {pair[0]}–{pair[1]}: {kind}" for pair, kind in switched.items() if not kind.startswith("NV")]
    if not slow:
        return None
    hint = "boards with these GPUs connect all of them by NVLink: have the Fabric Manager checked"
    return context.row(_ID, _WHAT, join_texts(slow, 4, ", "), WARNING, hint)


def _width_row(context: NodeContext, gpus: Sequence[Gpu]) -> CheckRow | None:
    """Return a warning row gpu.topology if a GPU has fewer PCIe lanes than most others of the same model; None
    otherwise. Models with only two GPUs are skipped, because the second slot of a workstation often has fewer lanes."""
    for model in sorted({gpu.model for gpu in gpus}):
        widths = [(gpu.number, gpu.width) for gpu in gpus if gpu.model == model and gpu.width]
        usual = sorted(width for _, width in widths if width)[len(widths) // 2 :][:1]
        narrow = [f"GPU {index}: {width} lanes of PCIe" for index, width in widths if usual and width < usual[0]]
        if narrow and len(widths) > 2 and len(narrow) * 2 < len(widths):
            hint = f"the others have {usual[0]}: loading data is slower there; have the node checked"
            return context.row(_ID, _WHAT, join_texts(narrow, 4, ", "), WARNING, hint)
    return None


def _text(pairs: Pairs, count: int) -> str:
    kinds = sorted(set(pairs.values()))
    return f"{gpus_text(count)}, {', '.join(kinds)} between them" if kinds else gpus_text(count)
