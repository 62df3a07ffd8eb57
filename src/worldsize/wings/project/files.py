"""The text of the files that `init` writes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from typing import NamedTuple

from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.job import InputValue, Job
from worldsize.wings.project.detect import SlurmCluster, TrainingScript

_ECHO_RANK = 'echo "rank $RANK of $WORLD_SIZE on $(hostname)"'


class InitAnswers(NamedTuple):
    """The facts that `init` has found, and the answers of the user.

    values         the values of options that the script requires
    undistributed  whether several ranks would each train on their own
    data_parallel  whether they should train together
    """

    script: TrainingScript | None
    nodes: int
    processes: int
    compute: str
    values: Mapping[str, str]
    undistributed: bool = False
    data_parallel: bool = False


def job_text(name: str, answers: InitAnswers) -> str:
    """Return the text of the job file that `worldsize init` writes, which can run as it is. `name` is the name of the
    job."""
    script = answers.script
    inputs = _inputs(script, answers.values)
    kind = "pytorch" if script is None or script.distributed else "none"
    code = os.path.dirname(script.path) if script else ""
    parts = [
        "# yaml-language-server: $schema=worldsize.schema.json\n",
        "# An Azure ML commandJob: worldsize run job.yml [-w 2x4] [--set inputs.NAME=VALUE]\n",
        "type: command\n",
        dump_job(Job(display_name=name)),
        f"code: ./{code}\n" if code else "code: .\n",
        "\n# The command of each rank, run by bash in a snapshot of the code.\n",
        "# RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, … are set; ./outputs is kept with the run.\n",
        dump_job(Job(command=_command(script, inputs))),
    ]
    if inputs:
        parts += ["\n", dump_job(Job(inputs=inputs))]
    parts += [
        f"\ndistribution:\n  type: {kind}\n",
        f"  process_count_per_instance: {answers.processes}   # usually the number of GPUs of a node\n",
        f"resources:\n  instance_count: {answers.nodes}   # nodes\n",
        f"compute: {answers.compute}\n",
    ]
    if answers.undistributed:
        mark = "" if answers.data_parallel else "# "
        parts.append(
            f"{mark}data_parallel: split   # one training on all ranks, since the script does not distribute itself\n"
        )
    return "".join(parts)


def _inputs(script: TrainingScript | None, values: Mapping[str, str]) -> dict[str, InputValue]:
    inputs: dict[str, InputValue] = {}
    for option in script.options if script else ():
        value = values.get(option.name, option.default)
        if value is not None:
            inputs[option.name] = value
    return inputs


def _command(script: TrainingScript | None, inputs: Mapping[str, InputValue]) -> str:
    if script is None:
        return _ECHO_RANK
    words = [_python(), shlex.quote(os.path.basename(script.path))]
    for option in script.options:
        if option.name in inputs:
            value = inputs[option.name]
            joint = "=" if isinstance(value, str) and value.startswith("-") else " "
            words.append(option.flag + joint + _reference(option.name, value))
    return " ".join(words)


def _reference(name: str, value: InputValue) -> str:
    """Return the reference to an input of the job in the job's command. If bash would not read the value as one plain
    word, it is a reference to the input's variable, which has the exact value."""
    plain = shlex.quote(str(value)) == str(value)
    return f"${{{{inputs.{name}}}}}" if plain else f'"$WORLDSIZE_INPUT_{name.upper()}"'


def _python() -> str:
    """Return the name by which ranks find Python, "python" or "python3". The directory of the Python that runs
    worldsize comes first on their PATH."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    return "python" if shutil.which("python", path=path) else "python3"


def config_text(cluster: SlurmCluster | None) -> str:
    """Return the text of the configuration file worldsize.toml that `worldsize init` writes. The table of a Slurm
    cluster is active if there is a cluster, else it is a comment."""
    mark = "" if cluster else "# "
    lines = [
        "# Where this project runs. `worldsize config show --origin` shows the values in force and their sources.",
        '# default_compute = "cluster"',
        "",
        mark + "[compute.cluster]",
        mark + 'type = "slurm"',
    ]
    if cluster and cluster.partitions:
        others = cluster.partitions[1:]
        beside = f"      # or: {', '.join(others)}" if others else ""
        lines.append(f'partition = "{cluster.partitions[0]}"{beside}')
    if cluster and cluster.gpus_per_node:
        lines.append(f"gpus_per_node = {cluster.gpus_per_node}")
    lines.append('# runs_dir = "/shared/me/runs"      # a directory that all nodes see')
    return "\n".join(lines) + "\n"
