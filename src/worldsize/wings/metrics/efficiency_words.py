"""The figures of a run's efficiency in words, with numbers first and at most two lines, and as data."""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.common.numbers import size_text
from worldsize.wings.metrics.efficiency import CpuFigures, Efficiency, GpuFigures, MemoryFigures, Starting

_UNTIL = {
    "logged_step": "before the first logged step",
    "gpu_busy": "before a GPU was busy",
    "ranks": "before the ranks began",
}
_MANY_CORES = 0.9
_MUCH_MEMORY = 0.8
_SPREAD = 0.1
_SECONDS_BELOW = 600.0


def efficiency_text(found: Efficiency, attempt: int) -> list[str]:
    """Return an attempt's efficiency as at most two lines of text: how much of the nodes' resources was used, and how
    long the start took."""
    use = "; ".join(filter(None, (_gpu_text(found.gpus), *_node_texts(found))))
    start = _start_text(found.starting, found.seconds) if found.starting else ""
    about = [f"attempt {attempt}"] if attempt else []
    about += [f"{found.known} of {found.nodes} nodes"] if found.known < found.nodes else []
    head = ", ".join(about) + ": " if about else ""
    return [head + line for line in (use, start) if line]


def efficiency_values(found: Efficiency, attempt: int) -> dict[str, Any]:
    """Return an attempt's efficiency as a JSON object {attempt, seconds, nodes, known, starting: {seconds, until},
    gpus: {gpus, unused, unused_on_each, busy, power, least, most}, cpu: {used, cores}, memory: {highest, of, node},
    text}. Each of the objects is None if nothing is certain about it."""
    parts = {"starting": found.starting, "gpus": found.gpus, "cpu": found.cpu, "memory": found.memory}
    data = {name: part._asdict() if part else None for name, part in parts.items()}
    return {"attempt": attempt, **found._asdict(), **data, "text": efficiency_text(found, attempt)}


def _start_text(starting: Starting, whole: float) -> str:
    size, unit = (1, "s") if whole < _SECONDS_BELOW else (60, "min")
    return f"{int(starting.seconds / size)} {unit} of {int(whole / size)} {unit} {_UNTIL[starting.until]}"


def _gpu_text(gpus: GpuFigures | None) -> str:
    if gpus is None:
        return ""
    used = gpus.gpus - gpus.unused
    if gpus.busy is None:
        return _unused_text(gpus) if gpus.unused else ""
    mean = "" if used == 1 else " on average"
    measured = _share(gpus.busy) + _spread(gpus) + (f", {gpus.power:.0f} W{mean}" if gpus.power is not None else "")
    if not gpus.unused:
        return f"{_count(used, 'GPU')} {measured}"
    return f"{_unused_text(gpus)}; the {'other' if used == 1 else 'others'} {measured}"


def _share(busy: float) -> str:
    return f"{100 * busy:.{1 if 0.0 < busy < 0.01 else 0}f} % busy"


def _spread(gpus: GpuFigures) -> str:
    """Return the lowest and the highest busy share of the GPUs in words, such as " (40 to 95 %)", which follow the mean
    if it hides that GPUs wait for another one; "" if they are close to each other."""
    if gpus.least is None or gpus.most is None or gpus.most - gpus.least < _SPREAD:
        return ""
    return f" ({100 * gpus.least:.0f} to {100 * gpus.most:.0f} %)"


def _unused_text(gpus: GpuFigures) -> str:
    if gpus.unused == gpus.gpus:
        return "the GPU was not used" if gpus.gpus == 1 else f"none of {gpus.gpus} GPUs used"
    each = f" ({gpus.unused_on_each} on each node)" if gpus.unused_on_each else ""
    return f"{gpus.unused} of {gpus.gpus} GPUs unused{each}"


def _node_texts(found: Efficiency) -> list[str]:
    """Return the use of CPU cores and of memory as separate texts. If GPUs do the work, each is included only if nearly
    all of it was used."""
    brief = found.gpus is not None and found.gpus.busy is not None
    cpu, memory = found.cpu, found.memory
    texts = []
    if cpu and not (brief and not (cpu.cores and cpu.used >= _MANY_CORES * cpu.cores)):
        texts.append(_cpu_text(cpu))
    if memory and not (brief and not (memory.of and memory.highest >= _MUCH_MEMORY * memory.of)):
        texts.append(_memory_text(memory, found.nodes))
    return texts


def _cpu_text(cpu: CpuFigures) -> str:
    used = f"{cpu.used:.1f}" if cpu.used < 10 else f"{cpu.used:.0f}"
    if cpu.cores is None:
        return f"{used} cores used"
    return f"{used} of {_count(cpu.cores, 'core')} used"


def _memory_text(memory: MemoryFigures, nodes: int) -> str:
    limit = f" of {size_text(memory.of)}" if memory.of else ""
    return f"highest memory {size_text(memory.highest)}{limit}" + (f" on node {memory.node}" if nodes > 1 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
