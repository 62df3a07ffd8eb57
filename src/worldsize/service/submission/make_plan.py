"""Computation of the plan from a job and the facts about its compute. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.common.path_mapping import Mapped, to_client_path, to_node_path
from worldsize.compute.base import ComputeFacts
from worldsize.errors import PlanError
from worldsize.jobspec.distribution import Distribution
from worldsize.jobspec.distributions.base import Arrangement, program_name
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.expressions import input_text, resolve_expressions
from worldsize.jobspec.job import Input, Job, Output
from worldsize.jobspec.paths import output_path
from worldsize.jobspec.sizes import memory_bytes_of
from worldsize.plan.launchers import launcher_facts, require_launcher
from worldsize.plan.plan import WITHOUT_DEVICE, NodePlan, Plan, Rehearsal
from worldsize.plan.rank_variables import convention_prefix
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import load_module
from worldsize.service.submission.plan_additions import labels_of, service_plans
from worldsize.service.submission.rank_packages import packages_of
from worldsize.trust.secrets import mask_argv, mask_text

_PROGRAMS = {"deepspeed": "wings.deepspeed.distribution"}
"""The programs of commands that start a node's ranks themselves, with their modules. Each module has a function
`with_launcher(arrangement, command, argv, gpus_per_node)`, which returns the arrangement for such a command."""


def make_plan(
    job: Job,
    facts: ComputeFacts,
    compute: str,
    paths: RunPaths,
    created: float,
    path: tuple[str, ...],
    umask: int | None = None,
) -> Plan:
    """Return the plan of the job's run in the directory `paths` on the compute: its nodes, ranks, command and
    variables. `path` are directories for the beginning of PATH, and `umask` is that of the shell that submits. Raise
    PlanError if the job and the compute do not fit, JobError if an expression names nothing."""
    distribution = job.distribution or PlainDistribution()
    arrangement = _arrangement(job, distribution, facts)
    nodes = arrangement.nodes
    _refuse_shared_gpus(job, facts, max(sum(rank.role not in WITHOUT_DEVICE for rank in node.ranks) for node in nodes))
    _refuse_data_parallel(job, distribution.type, arrangement.launcher)
    plan = Plan(
        run_id=paths.run_id,
        name=mask_text(job.display_name or job.name or _name(job)),
        compute=compute,
        created=created,
        attempt=0,
        nodes=nodes,
        argv=_argv(job, paths, facts.mapped),
        environment=_environment(job, paths, facts.mapped),
        framework=distribution.type,
        launcher=arrangement.launcher,
        options=arrangement.options,
        ports=arrangement.ports,
        leaders=arrangement.leaders,
        lingering=arrangement.lingering,
        conventions=_conventions(job, arrangement),
        threads=_threads(job, facts, nodes),
        bind=_bind(job, facts),
        visible_devices=job.visible_devices or (job.data_parallel is not None and facts.gpus_per_node != 0),
        gpus=facts.gpus_per_node,
        grace=job.grace,
        hang_timeout=job.hang_timeout,
        watchdog_timeout=job.watchdog.timeout,
        watchdog_action=job.watchdog.action,
        timeout=job.limits.timeout,
        strict=job.strict,
        kept=_kept_variables(_conventions(job, arrangement), facts),
        umask=0o027 if job.share == "group" else 0o077,
        ranks_umask=_ranks_umask(job, umask),
        python=facts.python,
        rdzv_endpoint=facts.rdzv_endpoint,
        errands=facts.errands,
        shielded=facts.shielded,
        data_parallel=job.data_parallel,
        inrank=packages_of(job),
        rehearsal=_rehearsal(job),
        labels=labels_of(job),
        services={} if facts.hosted else service_plans(job),
        shm_bytes=memory_bytes_of(job.resources.shm_size) if job.resources.shm_size else None,
    )
    if job.batch_script is not None:
        from worldsize.service.submission.batch_script import script_submission

        plan = script_submission().with_script(plan, job, facts)
    return _with_search_path(plan, job, facts, path)


def _ranks_umask(job: Job, umask: int | None) -> int | None:
    """Return the umask of the ranks, which is the user's `umask`. With `share: group` it is changed so that the group
    can read what the ranks make, and only the user can write to it."""
    return umask & ~0o050 | 0o022 if umask is not None and job.share == "group" else umask


def _rehearsal(job: Job) -> Rehearsal | None:
    """Return the plan's Rehearsal (virtual GPUs, offline, shared paths) of a job with `virtual_gpus`; None for a job
    that is not rehearsed. Absolute paths that the job itself names are taken to be visible to all nodes."""
    if job.virtual_gpus is None:
        return None
    named = [
        value.path for value in (*job.inputs.values(), *job.outputs.values()) if isinstance(value, (Input, Output))
    ]
    shared = tuple(path for path in named if path and os.path.isabs(path))
    return Rehearsal(job.virtual_gpus, job.offline, shared)


def with_run_directory(plan: Plan, job: Job, paths: RunPaths, mapped: Mapped = ()) -> Plan:
    """Return `plan` with the id, command and variables of a run in the directory `paths`, for `job`, which differs from
    the job of the plan only in its inputs."""
    secrets = {name: plan.environment[name] for name in job.secrets if name in plan.environment}
    environment = {**_environment(job, paths, mapped), **secrets}
    return plan._replace(run_id=paths.run_id, argv=_argv(job, paths, mapped), environment=environment)


def _with_search_path(plan: Plan, job: Job, facts: ComputeFacts, path: tuple[str, ...]) -> Plan:
    """Return `plan` with the directories `path` first on PATH. If there are setup lines, one of which may place another
    `python` first, an additional setup line before them sets PATH instead."""
    setup = _setup_lines(job, facts)
    first = (f"export PATH={':'.join(map(shlex.quote, path))}:$PATH",) if path else ()
    lines = (*first, *setup) if setup and plan.batch is None else ()
    return plan._replace(path=() if setup else path, setup=lines)


def with_client_paths(job: Job, mapped: Mapped) -> Job:
    """Return the job with all paths as this machine names them, whichever name of a shared directory the job uses."""

    def renamed(value: Any) -> Any:
        path = getattr(value, "path", None)
        return value._replace(path=to_client_path(path, mapped)) if path else value

    return job._replace(
        code=job.code and to_client_path(job.code, mapped),
        inputs={name: renamed(value) for name, value in job.inputs.items()},
        outputs={name: renamed(value) for name, value in job.outputs.items()},
    )


def _arrangement(job: Job, distribution: Distribution, facts: ComputeFacts) -> Arrangement:
    """Return the arrangement of the job's nodes and ranks, and their launcher, as its distribution decides them. It is
    changed if the command is a launcher that starts a node's ranks itself, and for autotuning."""
    arrangement = distribution.arrange(job.resources.instance_count)
    for program, module in _PROGRAMS.items() if job.batch_script is None else ():
        if program in job.command and program_name(program, job.command, job.argv):
            wing = load_module(module, f"the launcher {program}")
            arrangement = wing.with_launcher(arrangement, job.command, job.argv, facts.gpus_per_node)
    require_launcher(arrangement.launcher)
    if job.autotune is None:
        return arrangement
    from worldsize.service.providers import provider

    tuned: Arrangement = provider("searches").with_own_tuning(arrangement)
    return tuned


def _conventions(job: Job, arrangement: Arrangement) -> tuple[str, ...]:
    wanted = job.conventions or arrangement.default_conventions
    missing = (each for each in arrangement.conventions if each not in wanted)
    return (*wanted, *missing) if wanted else ()


def _kept_variables(conventions: tuple[str, ...], facts: ComputeFacts) -> tuple[str, ...]:
    """Return the names of the cluster's own environment variables that belong to the conventions of the job and that
    its ranks keep; all of them if the job does not select conventions."""
    if not conventions or not facts.kept:
        return facts.kept
    wanted = tuple(filter(None, map(convention_prefix, conventions)))
    return tuple(name for name in facts.kept if name.startswith(wanted))


def _argv(job: Job, paths: RunPaths, mapped: Mapped) -> tuple[str, ...]:
    """Return the words of the job's command with expressions such as `${{inputs.x}}` replaced by the paths of inputs
    and outputs. The words are unchanged if the job has no inputs and outputs that an expression could name."""
    if job.batch_script is not None:
        from worldsize.service.submission.batch_script import script_submission

        return script_submission().argv(job, paths)
    if not job.argv:
        return ("bash", "-c", _resolve_text(job, paths, mapped, job.command, "command"))
    if not job.inputs and not job.outputs:
        return job.argv
    return tuple(_resolve_text(job, paths, mapped, word, "argv") if "${{" in word else word for word in job.argv)


def _environment(job: Job, paths: RunPaths, mapped: Mapped) -> dict[str, str]:
    """Return the environment variables of the ranks: the values of inputs and outputs, and the job's own variables. The
    latter take precedence. The number of threads is set only if the job sets it."""
    threads = {"OMP_NUM_THREADS": str(job.threads)} if job.threads else {}
    return {**threads, **_values(job, paths, mapped), **_variables(job, paths, mapped)}


def _setup_lines(job: Job, facts: ComputeFacts) -> tuple[str, ...]:
    modules = (*facts.modules, *job.modules)
    if not modules:
        return (*facts.setup, *job.setup)
    from worldsize.plan.setup_script import module_line

    return (*map(module_line, modules), *facts.setup, *job.setup)


def _variables(job: Job, paths: RunPaths, mapped: Mapped) -> dict[str, str]:
    """Return the job's `environment_variables`, with expressions such as `${{inputs.x}}` resolved, as a mapping of name
    to text."""
    return {
        name: _resolve_text(job, paths, mapped, text, "environment_variables." + name) if "${{" in text else text
        for name, text in job.environment_variables.items()
    }


def _inputs(job: Job, mapped: Mapped) -> dict[str, str]:
    return {
        name: to_node_path(input_text(value), mapped) if isinstance(value, Input) else input_text(value)
        for name, value in job.inputs.items()
        if not _is_absent(value)
    }


def _outputs(job: Job, paths: RunPaths, mapped: Mapped) -> dict[str, str]:
    return {name: to_node_path(output_path(paths, name, output), mapped) for name, output in job.outputs.items()}


def _resolve_text(job: Job, paths: RunPaths, mapped: Mapped, text: str, where: str) -> str:
    inputs, outputs = _inputs(job, mapped), _outputs(job, paths, mapped)
    absent = [name for name, value in job.inputs.items() if _is_absent(value)]
    return resolve_expressions(text, inputs, outputs, where, absent)


def _is_absent(value: object) -> bool:
    return isinstance(value, Input) and value.path is None


def _values(job: Job, paths: RunPaths, mapped: Mapped) -> dict[str, str]:
    """Return environment variables with every input's exact value and every output's path: WORLDSIZE_INPUT_ and
    WORLDSIZE_OUTPUT_, followed by the name and also by the name in capitals."""
    values: Mapping[str, str] = {
        **{"INPUT_" + name: text for name, text in _inputs(job, mapped).items()},
        **{"OUTPUT_" + name: path for name, path in _outputs(job, paths, mapped).items()},
    }
    exact = {"WORLDSIZE_" + re.sub(r"\W", "_", name): text for name, text in values.items()}
    return {**{name.upper(): text for name, text in exact.items()}, **exact}


_SHELL_SIGNS = "[](){}<>;&|!'\"`"


def _name(job: Job) -> str:
    """Return a name for a job's run that has no name of its own: that of the script in its command, else of the
    program. Words are masked before the name is cut, since masking does not recognise a part of a secret."""
    given = mask_argv(job.argv) if job.argv else mask_text(job.command).split()
    words = [word.strip(_SHELL_SIGNS) for word in given]
    program = next(
        (word for word in words if re.match(r"[\w./~-]*[^\W\d_]", word) and not re.match(r"\w+=", word)), "run"
    )
    script = next((word for word in words if word.endswith((".py", ".sh"))), program)
    return os.path.splitext(os.path.basename(script))[0][:40]


def _threads(job: Job, facts: ComputeFacts, nodes: tuple[NodePlan, ...]) -> int | None:
    """Return the number of CPU threads of each rank: the job's `threads`, else the cores of a shared host divided by
    the number of all ranks (of other hosts, by the number of ranks on a node). None if the cores are unknown: each node
    divides its own then."""
    if job.threads:
        return job.threads
    if facts.cores_per_node is None:
        return None
    counts = [len(node.ranks) for node in nodes]
    sharing = sum(counts) if facts.shared_host else max(counts)
    return max(1, facts.cores_per_node // sharing)


def _bind(job: Job, facts: ComputeFacts) -> str:
    """Return how ranks are bound to CPUs, "none" or "node". They are not bound on a machine that is shared with other
    runs: two runs would be bound to the same cores, and the kernel balances better. Otherwise the node binds them,
    since it knows which CPUs it was given."""
    return "none" if job.bind == "none" or facts.shared_host else "node"


def _refuse_data_parallel(job: Job, framework: str, launcher: str) -> None:
    if job.data_parallel is None:
        return
    if job.batch_script is not None or framework not in ("none", "pytorch") or not launcher_facts(launcher).by_agent:
        other = "a batch script" if job.batch_script is not None else f"{framework}, started by {launcher}"
        raise PlanError(
            f"data_parallel is for a torch script whose ranks worldsize starts, and this is {other}",
            "data_parallel",
            "leave it out, or run the script itself: worldsize run -w 2x4 --data-parallel -- python train.py",
        )


def _refuse_shared_gpus(job: Job, facts: ComputeFacts, processes: int) -> None:
    gpus = facts.gpus_per_node
    if gpus is None or job.share_gpus or processes <= gpus:
        return
    if gpus or job.visible_devices:
        raise PlanError(
            "{} processes per node, but a node has {} GPU{}".format(processes, gpus, "" if gpus == 1 else "s"),
            "distribution.process_count_per_instance",
            f"one process per GPU: ask for {max(gpus, 1)}, or set share_gpus: true",
        )
