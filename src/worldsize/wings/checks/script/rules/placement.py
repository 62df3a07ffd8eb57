"""Rules for the GPU that a rank uses, and for the number of processes that share a node's GPUs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.state.check_rows import BAD, WARNING
from worldsize.wings.checks.agent.gpu.device import gpus_text
from worldsize.wings.checks.script.reading.backends import backend_of
from worldsize.wings.checks.script.reading.calls import argument, integer, text
from worldsize.wings.checks.script.reading.program import Program, processes_of_torchrun
from worldsize.wings.checks.script.reading.ranks import is_global_rank
from worldsize.wings.checks.script.reading.words import plain_words
from worldsize.wings.checks.script.request import ScriptFinding

_OTHER_TEST = r"(?i)rank|node|world|local|size|count"
_PRINTS = ("print", "info", "debug", "warning", "error", "log", "write")


def global_devices(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if the script uses the global rank as the number of a GPU on several nodes. Each node
    counts its GPUs from 0."""
    gpus = program.request.gpus_per_node
    if program.nodes < 2 or not _may_have_too_few(program):
        return
    for node, number in _chosen_devices(program):
        if not program.flow.is_reached(node) or not is_global_rank(program, number) or _is_chosen(program, node):
            continue
        last = program.world_size - 1
        of = f" of a node with {gpus_text(gpus)}" if gpus else ", counted over all nodes"
        what = f"the global rank is used as the GPU's number: rank {last} would ask for cuda:{last}{of}"
        hint = 'use the local rank: int(os.environ["LOCAL_RANK"])'
        yield program.finding("script.device", node, what, BAD if gpus else WARNING, hint)
        return


def _may_have_too_few(program: Program) -> bool:
    gpus = program.request.gpus_per_node
    return program.ranks_per_node > 1 if gpus is None else 0 < gpus < program.world_size


def _is_chosen(program: Program, node: ast.AST) -> bool:
    """Return whether the script tests its rank, node or world size before it uses the GPU at this node of the syntax
    tree."""
    return any(re.search(_OTHER_TEST, word) for test in program.flow.conditions(node) for word in plain_words(test))


def _chosen_devices(program: Program) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield pairs (node, expression of the number) for each place in the script that chooses a GPU by a number, such as
    `torch.cuda.set_device(rank)`."""
    flow = program.flow
    for call in flow.calls("set_device", "to", "cuda"):
        if len(call.args) == 1 and isinstance(call.func, ast.Attribute):
            yield call, call.args[0]
    for call in flow.calls("device"):
        if len(call.args) == 2 and text(call.args[0]) == "cuda":
            yield call, call.args[1]
    for call in flow.calls("DistributedDataParallel"):
        devices = argument(call, "device_ids")
        if isinstance(devices, ast.List) and len(devices.elts) == 1:
            yield call, devices.elts[0]
    yield from _named_devices(program)


def _named_devices(program: Program) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield pairs (node, expression of the number) for the texts in the script that name a GPU, such as
    f"cuda:{rank}"."""
    for constant in program.index.strings[:2000]:
        parent = program.index.parents.get(constant)
        value = str(constant.value)
        if isinstance(parent, ast.JoinedStr) and value == "cuda:" and len(parent.values) == 2:
            last = parent.values[1]
            if isinstance(last, ast.FormattedValue) and not _is_printed(program, parent):
                yield parent, last.value
        elif isinstance(parent, ast.BinOp) and parent.left is constant and value in ("cuda:", "cuda:%d", "cuda:%s"):
            yield parent, parent.right
        elif isinstance(parent, ast.Attribute) and parent.attr == "format" and value == "cuda:{}":
            call = program.index.parents.get(parent)
            if isinstance(call, ast.Call) and len(call.args) == 1:
                yield call, call.args[0]


def _is_printed(program: Program, node: ast.AST) -> bool:
    call = program.index.parents.get(node)
    return isinstance(call, ast.Call) and program.index.last_name(call.func) in _PRINTS


def crowded_gpus(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if a node has more processes than GPUs, for a script that computes on GPUs, or if each rank
    would start further processes by torchrun or mp.spawn. NCCL refuses two ranks on one GPU."""
    yield from _spawning(program)
    started = processes_of_torchrun(program.command)
    ranks, gpus = program.request.ranks_per_node, program.request.gpus_per_node
    if started is not None and started > 1 and ranks > 1:
        what = f"{ranks} ranks on each node would each start {started} processes by torchrun"
        hint = "leave torchrun out of the command, or ask for one rank per node"
        yield ScriptFinding("script.processes", "", 0, what, BAD, hint)
    elif gpus and program.ranks_per_node > gpus and _computes_on_gpus(program):
        verdict = BAD if backend_of(program) == "nccl" else WARNING
        if verdict == WARNING and "device_count" in program.index.references:
            return  # the ranks share GPUs on purpose
        what = f"{program.ranks_per_node} processes on each node for {gpus_text(gpus)}"
        hint = f"ask for {gpus} per node: `process_count_per_instance: {gpus}`"
        if started is not None and started > 1:
            hint = f"use --nproc_per_node={gpus}"
        file = program.index.modules[0].path if started is None else ""
        yield ScriptFinding("script.processes", file, 1 if file else 0, what, verdict, hint, refused=verdict == BAD)


def _computes_on_gpus(program: Program) -> bool:
    return program.imports(("torch",)) and any(
        call for name in ("cuda", "set_device", "device", "to") for call in program.flow.calls(name) if _says_cuda(call)
    )


def _says_cuda(call: ast.Call) -> bool:
    return any(word == "cuda" or word.startswith("cuda:") for word in plain_words(call))


def _meets_others(program: Program, function: ast.expr | None) -> bool:
    """Return whether the body of a function in the script, or of a function that it names, creates a process group."""
    waiting, seen = [program.index.last_name(function)] if function is not None else [], set[str]()
    while waiting:
        name = waiting.pop()
        if name == "init_process_group":
            return True
        seen.add(name)
        for each in program.index.functions.get(name, ()):
            waiting += program.index.uses[each] - seen
    return False


def _spawning(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if the script calls mp.spawn, which starts further processes in each rank, although the job
    has several ranks per node."""
    ranks = program.request.ranks_per_node
    if ranks < 2 or not program.flow.calls("init_process_group"):
        return
    for call in program.flow.calls("spawn"):
        if not program.index.full_name(call.func).startswith("torch.multiprocessing.") or not program.flow.is_always(
            call
        ):
            continue
        count = argument(call, "nprocs", 2)
        if count is None or integer(count) == 1 or not _meets_others(program, argument(call, "fn", 0)):
            continue
        what = f"each of the {ranks} ranks on a node would start its own processes by mp.spawn"
        hint = "ask for one rank per node, or call the function itself with the rank from LOCAL_RANK"
        yield program.finding("script.processes", call, what, BAD, hint)
        return
