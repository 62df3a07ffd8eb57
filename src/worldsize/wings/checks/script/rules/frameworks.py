"""Rule for scripts that distribute themselves in a way that the job's `distribution` does not support."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.plan.launchers import launcher_facts
from worldsize.state.check_rows import BAD
from worldsize.wings.checks.script.reading.calls import argument, has_stars, integer, text
from worldsize.wings.checks.script.reading.program import Program
from worldsize.wings.checks.script.request import ScriptFinding

ID = "script.not_distributed"
_SEVERAL_WORKERS = ("MultiWorkerMirroredStrategy", "ParameterServerStrategy", "CollectiveAllReduceStrategy")
_ENVIRONMENT_HINT = "set num_nodes={nodes} and devices={ranks}, as the job has them"


def wrong_distributions(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding for each framework in the script (Horovod, MPI, TensorFlow, Lightning, torchrun) that needs
    another `distribution` than that of the job."""
    if program.world_size < 2 or program.request.data_parallel:
        return
    yield from _horovod(program)
    yield from _mpi(program)
    yield from _tensorflow(program)
    yield from _lightning(program)
    yield from _torchrun(program)


def _trainings(program: Program) -> str:
    return f"{program.world_size} separate trainings would run, or none"


def _is_started_by_mpi(program: Program) -> bool:
    request = program.request
    by_mpi = bool(request.launcher) and "PMIX_" in launcher_facts(request.launcher).own_variables
    return by_mpi or request.distribution in ("mpi", "horovod", "ray")


def _horovod(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if the script uses Horovod and Horovod cannot find its ranks. It finds them through its
    rendezvous server, which `type: horovod` starts, or through MPI."""
    if program.brands != {"horovod"} or _is_started_by_mpi(program) or _sets(program, "HOROVOD_GLOO_RENDEZVOUS_ADDR"):
        return
    for call in program.flow.calls("init"):
        if program.index.full_name(call.func).startswith("horovod.") and program.flow.is_always(call):
            what = f"{_trainings(program)}: Horovod finds no other ranks here"
            yield program.finding(ID, call, what, BAD, "ask for `distribution: type: horovod`")
            return


def _mpi(program: Program) -> Iterator[ScriptFinding]:
    if program.brands != {"mpi4py"} or _is_started_by_mpi(program):
        return
    if program.request.distribution not in ("pytorch", "tensorflow", "jax", "deepspeed"):
        return
    for call in program.flow.calls("Get_size", "Get_rank"):
        if program.flow.is_always(call):
            what = f"{program.world_size} separate runs of one rank each: MPI finds no other ranks here"
            yield program.finding(ID, call, what, BAD, "ask for `distribution: type: mpi`")
            return


def _sets(program: Program, name: str) -> bool:
    """Return whether the job sets an environment variable of this name, or the script contains the name as a string."""
    return name in program.request.environ or any(node.value == name for node in program.index.strings)


def _tensorflow(program: Program) -> Iterator[ScriptFinding]:
    if program.brands:
        return
    several = program.flow.calls(*_SEVERAL_WORKERS)
    if not several:
        yield from _mirrored_strategy(program)
    if program.request.distribution == "tensorflow" or _sets(program, "TF_CONFIG"):
        return
    for call in several:
        given = argument(call, "cluster_resolver", 0) is not None or has_stars(call)
        if not given and program.index.full_name(call.func).startswith("tensorflow.") and program.flow.is_always(call):
            what = f"{_trainings(program)}: TensorFlow finds no TF_CONFIG, and so no other workers"
            yield program.finding(ID, call, what, BAD, "ask for `distribution: type: tensorflow`")
            return


def _mirrored_strategy(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if the script always uses TensorFlow's MirroredStrategy, which uses only the GPUs of one
    process."""
    for call in program.flow.calls("MirroredStrategy"):
        if program.index.full_name(call.func).startswith("tensorflow.") and program.flow.is_always(call):
            what = f"{program.world_size} separate trainings would run: MirroredStrategy uses one process only"
            hint = "use tf.distribute.MultiWorkerMirroredStrategy with `distribution: type: tensorflow`"
            yield program.finding(ID, call, what, BAD, hint)
            return


def _lightning(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if the numbers of nodes and devices of Lightning's Trainer in the script contradict the
    job. Lightning reads the numbers of nodes and ranks only from its Trainer, and uses one node if the Trainer does not
    set it."""
    if not {"lightning"} <= program.brands <= {"lightning", "torch.distributed"}:
        return
    if program.command.starter != "python" or not program.flow.calls("fit", "launch"):
        return
    calls = [call for call in program.flow.calls("Trainer", "Fabric") if _is_lightning(program, call)]
    contradictions = [_contradiction(program, call) for call in calls]
    if not calls or not all(contradictions) or not any(map(program.flow.is_always, calls)):
        return
    hint = _ENVIRONMENT_HINT.format(nodes=program.request.nodes, ranks=program.ranks_per_node)
    yield program.finding(ID, calls[0], f"{contradictions[0]}", BAD, hint)


def _is_lightning(program: Program, call: ast.Call) -> bool:
    return program.index.full_name(call.func).startswith(("pytorch_lightning.", "lightning.", "lightning_fabric."))


def _contradiction(program: Program, call: ast.Call) -> str:
    """Return a text that states how the nodes and devices of a call of Lightning's Trainer differ from those of the
    job; "" if they may be the same."""
    if has_stars(call) or argument(call, "plugins") is not None:
        return ""
    nodes, ranks = program.request.nodes, program.ranks_per_node
    said_nodes = _count(program, argument(call, "num_nodes"), 1)
    said_devices = _count(program, argument(call, "devices"), None)
    if said_nodes is not None and said_nodes != nodes:
        return f"the Trainer has {said_nodes} of {nodes} nodes"
    if said_devices is not None and said_devices > 0 and said_devices != ranks:
        return f"the Trainer has devices={said_devices}, the job {ranks} rank{'s' if ranks > 1 else ''} per node"
    return ""


def _count(program: Program, node: ast.expr | None, absent: int | None) -> int | None:
    if node is None:
        return absent
    origins = program.flow.origins(node)
    if origins is None or len(origins) != 1:
        return None
    if isinstance(origins[0], ast.List | ast.Tuple):
        return len(origins[0].elts)
    word = text(origins[0])
    return int(word) if word is not None and word.isdigit() else integer(origins[0])


def _torchrun(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if the job's command starts torchrun for one node only, although the job has several
    nodes."""
    request, command = program.request, program.command
    if command.starter != "torchrun" or request.nodes < 2 or any(name.startswith("PET_") for name in request.environ):
        return
    if "standalone" not in command.options and command.options.get("nnodes", "1") not in ("1", "1:1"):
        return
    what = f"{request.nodes} separate trainings would run: the command's torchrun uses one node only"
    hint = "leave torchrun out of the command, with `distribution: type: pytorch`: the ranks are started without it"
    yield ScriptFinding(ID, "", 0, what, BAD, hint)
