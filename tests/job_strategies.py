"""Jobs, and the values they are made of, as hypothesis strategies; the number of examples of a test; a job file
with every key of a commandJob, and lines with a misspelt word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.errors import WorldsizeError
from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Input, Job, Limits, Output, Resources, command_text
from worldsize.jobspec.keys import job as keys
from worldsize.plan.rank_variables import CONVENTIONS
from worldsize.registry import find_module

fuzz = settings(
    max_examples=cases(),
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def made(kind: Callable[..., Any], *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of a named tuple; the fields that are not given keep their defaults."""
    return st.tuples(*fields).map(lambda values: kind(*values))


# Text that a process can be given: no NUL, undecodable bytes as the system's own arguments bring them.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | st.sampled_from(
    ["\udcff", "a\nb", "a\n", " x\ny", "yes", "010", "1e3", "", "2024-01-01", "~", "é: x #", "<<", "---", "a\n b\n\n"]
)
filled = texts.filter(lambda text: bool(text.strip()))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
labels = st.dictionaries(filled.filter(lambda text: "=" not in text), texts, max_size=3)
numbers = st.integers() | st.floats(allow_nan=False)
scalars = st.none() | st.booleans() | numbers | texts
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
options = st.dictionaries(texts, trees, max_size=3)
paths = st.sampled_from(["/data/a b", "azureml:x:1", "https://h/p", "/é"])
processes = st.integers(1, 1000)
OF_WINGS = {
    "mpi": (processes,),
    "tensorflow": (st.integers(0, 9), st.none() | processes),
    "ray": (st.none() | st.integers(1, 65535), st.none() | texts, st.none() | st.booleans()),
}
distributions = st.one_of(
    st.none(),
    made(PlainDistribution, processes),
    made(PyTorchDistribution, processes, st.sampled_from(["direct", "torchrun"])),
    *(made(DISTRIBUTIONS[name], *fields) for name, fields in OF_WINGS.items() if name in tuple(DISTRIBUTIONS)),
)
inputs = (
    st.booleans()
    | numbers
    | texts
    | made(
        Input,
        st.sampled_from(keys.ASSET_TYPES),
        paths,
        st.none() | st.sampled_from(keys.INPUT_MODES),
        st.booleans(),
        st.none() | texts,
    )
)
outputs = made(
    Output,
    st.sampled_from(keys.ASSET_TYPES),
    st.none() | st.sampled_from(keys.OUTPUT_MODES),
    st.none() | paths,
    st.from_regex(r"[A-Za-z0-9_-]{1,9}", fullmatch=True),
    st.none() | filled,
    st.none() | texts,
) | made(Output, st.sampled_from(keys.ASSET_TYPES), st.none() | st.sampled_from(keys.OUTPUT_MODES), st.none() | paths)
resources = made(
    Resources,
    st.integers(1, 1000),
    st.none() | texts,
    st.none() | texts,
    st.none() | texts | st.lists(texts, min_size=1, max_size=3).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
    st.none() | processes,
    options,
)
environments = st.fixed_dictionaries(
    {"image": st.just("x")},
    optional={
        "name": texts,
        "python": st.sampled_from(["3.11", "torch", "/p/venv"]),
        "channels": st.lists(filled, min_size=1, max_size=2).map(tuple),
        "conda": st.lists(filled, min_size=1, max_size=2).map(tuple),
        "pip": st.lists(st.sampled_from(["numpy>=1", "-r /p/r.txt", "/p/a.whl"]), min_size=1, max_size=2).map(tuple),
        "conda_file": st.just("/p/env.yml") | st.just({"dependencies": ["python=3.11", {"pip": ["a"]}]}),
        "variables": labels,
        "path": st.sampled_from([("/opt/bin",), ("$HOME/bin", "/a b")]),
        "fetch": st.just([{"url": "https://h/p", "sha256": "0" * 64, "to": "/home"}]),
        "build": st.just({"path": "/p"}) | st.just(["make", {"pip": ("a",), "variables": {"B": "1"}}]),
        "build_on": st.sampled_from(["login", "compute"]),
    },
)


def _with_matrix(job: Job, varied: Mapping[str, list[Any]], count: int | None, at_once: int | None) -> Job:
    """Names of a matrix are inputs of the job; a count stands alone."""
    matrix = {name: tuple(values) for name, values in varied.items()}
    inputs = {**job.inputs, **{name: values[0] for name, values in matrix.items()}}
    several = bool(matrix) or count is not None
    return job._replace(
        matrix=matrix, inputs=inputs, count=None if matrix else count, at_once=at_once if several else None
    )


def _with_words(job: Job, argv: tuple[str, ...]) -> Job:
    return job._replace(argv=argv, command=command_text(argv)) if argv and argv[0] else job


searches = st.sampled_from([{}, {"search": {"a.b": (1, "x")}, "timeout": 1.5, "by": "worldsize"}])

some_jobs = st.fixed_dictionaries(
    {"command": filled, "source": st.just("job.yml")},
    optional={
        "code": st.none() | paths,
        "name": st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True),
        "display_name": st.none() | texts,
        "description": st.none() | texts,
        "tags": labels,
        "properties": labels,
        "environment": st.none() | st.sampled_from(["azureml:a@latest", "file:/p/env.yml", "/p/r.txt"]) | environments,
        "environment_variables": labels,
        "distribution": distributions,
        **({"autotune": st.none() | searches} if find_module("wings.trials.keys") else {}),
        "compute": st.none() | filled,
        "resources": resources,
        "limits": made(Limits, st.none() | st.floats(1e-3, 1e6) | st.integers(1, 10**6)),
        "inputs": st.dictionaries(names, inputs, max_size=4),
        "outputs": st.dictionaries(names, outputs, max_size=3),
        "queue_settings": st.sampled_from([{}, {"job_tier": "spot"}, {"priority": "low"}]),
        "services": st.dictionaries(texts, st.just({"type": "ssh", "nodes": "all"}), max_size=2),
        "conventions": st.lists(st.sampled_from(CONVENTIONS), max_size=3).map(tuple),
        "grace": st.integers(0, 100) | st.floats(0, 100),
        "hang_timeout": st.integers(0, 1000) | st.floats(0, 1000),
        "notify": st.none() | texts,
        "preload": st.sampled_from([(), ("auto",), ("off",), ("torch",), ("torch.nn", "yes")]),
        "strict": st.booleans(),
        "threads": st.none() | st.integers(1, 64),
        "bind": st.sampled_from(["auto", "none"]),
        "share": st.none() | st.just("group"),
        "share_gpus": st.booleans(),
        "visible_devices": st.booleans(),
        "data_parallel": st.sampled_from([None, "split", "scale"]),
        "virtual_gpus": st.integers(1, 1024),
        "offline": st.booleans(),
        "modules": st.lists(filled, max_size=2).map(tuple),
        "setup": st.lists(texts, max_size=2).map(tuple),
        "slurm": st.fixed_dictionaries(
            {},
            optional={
                "partition": filled | st.lists(filled, min_size=1, max_size=2).map(tuple),
                "time": filled,
                "cpus_per_rank": st.integers(1, 64),
                "requeue": st.booleans(),
                "exclusive": st.sampled_from(["true", "false", "user"]),
                "sbatch_options": labels,
            },
        ),
        "hpcpack": st.fixed_dictionaries(
            {},
            optional={
                "nodes": filled | st.lists(filled, min_size=1, max_size=2).map(tuple),
                "node_group_op": st.sampled_from(["Intersect", "Uniform", "Union"]),
                "exclusive": st.booleans(),
                "priority": st.sampled_from(["Lowest", "Highest"]),
                "rdzv_endpoint": filled,
                "job_properties": labels,
            },
        ),
    },
).map(lambda values: Job(**values))
literals = st.booleans() | numbers | texts
varied = st.just({}) | st.dictionaries(names, st.lists(literals, min_size=1, max_size=3), max_size=3)
several_jobs = st.builds(_with_matrix, some_jobs, varied, st.none() | processes, st.none() | processes)
worded_jobs = st.builds(_with_words, several_jobs, st.lists(texts, max_size=4).map(tuple))


def jobs(test: Callable[[Any], None]) -> Callable[[], None]:
    return fuzz(given(worded_jobs)(test))


objects = st.recursive(
    scalars | st.floats() | st.binary(max_size=3) | st.just(object()) | st.dates() | st.builds(Path, st.just("x")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.sets(st.integers(), max_size=2)
        | st.dictionaries(texts | st.integers() | st.none(), inner, max_size=3)
        | made(Input, inner, inner, inner, inner, inner)
    ),
    max_leaves=8,
)
"""What a program may say by mistake."""


def only_ours(act: Callable[[], object]) -> None:
    """Runs `act`; an error of ours must be one of use, with words that can be printed."""
    try:
        act()
    except WorldsizeError as error:
        assert error.exit_code == 2
        assert error.what
        str(error).encode("utf-8", "backslashreplace")


FULL = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
name: mnist-1
display_name: MNIST on two nodes
experiment_name: mnist
description: |
  Several
  lines.
tags: {team: vision, version: 1.0, empty: }
properties: {origin: "guide"}
command: >-
  python train.py --data ${{inputs.data}}
  --lr ${{inputs.lr}}
code: src
environment: azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6
environment_variables:
  NCCL_DEBUG: INFO
  DEBUG: true
  RATE: 1.50
  MODE: 010
  DAY: 2024-01-01
  EMPTY: ""
distribution:
  type: PyTorch
  process_count_per_instance: 2
  added_property: 7
compute: azureml:gpu-cluster
resources:
  instance_count: 2
  instance_type: STANDARD_NC6
  shm_size: 2g
  docker_args: [--ipc=host, --shm-size 4g]
  locations: [westeurope]
  max_instance_count: 4
  properties: {AISuperComputer: {interactive: true}}
limits: {timeout: 3600}
inputs:
  data: {type: uri_folder, path: ../data, mode: ro_mount}
  store: {path: "azureml://datastores/a/paths/b"}
  maybe: {type: uri_file, optional: true}
  lr: 0.1
  count: 010
  on_: yes
  day: 2024-01-01
  text: two words
  huge: .inf
outputs:
  model: {type: custom_model, mode: rw_mount, name: best, version: 3}
  log:
queue_settings: {job_tier: Spot, priority: medium}
services:
  board: {type: tensor_board, log_dir: logs, nodes: all, port: 6006}
identity: {type: user_identity}
parent_job_name: sweep_7
conventions: [torch, AzureML]
grace: 5
threads: 4
bind: none
share: group
share_gpus: true
visible_devices: false
modules: [gcc/12, "cuda/12.4"]
setup: [ulimit -n 4096]
slurm: {partition: [gpu, big], time: 1:30:00, gpus_per_node: 4, requeue: false, exclusive: true}
hpcpack: {node_group: GPU, nodes: [n1, n2], exclusive: true, priority: Highest}
"""

WRONG_KEYS = [
    ("comand: x", "comand: is not a key of a job", "command"),
    ("resources: {instanc_count: 2}", "resources.instanc_count: is not a key of resources", "instance_count"),
    ("inputs: {a: {paht: x}}", "inputs.a.paht: is not a key of inputs.a", "path"),
    ("outputs: {a: {mod: x}}", "outputs.a.mod: is not a key of outputs.a", "mode"),
    ("services: {a: {prot: 1}}", "services.a.prot: is not a key of services.a", "port"),
    ("environment: {imgae: x}", "environment.imgae: is not a key of environment", "image"),
    ("services: {a: {type: tensorbord}}", "services.a.type: 'tensorbord' is not one of", "TensorBoard"),
    ("identity: {type: managd}", "identity.type: 'managd' is not one of", "managed"),
    ("limits: {timeuot: 3}", "limits.timeuot: is not a key of limits", "timeout"),
    ("bind: nonee", "bind: 'nonee' is not one of the allowed values", "none"),
    ("conventions: [troch]", "conventions[0]: 'troch' is not one of the allowed values", "torch"),
    ("inputs: {a: {type: uri_floder, path: x}}", "inputs.a.type: 'uri_floder' is not one of", "uri_folder"),
    ("distribution: {type: pytroch}", "distribution.type: 'pytroch' is not one of", "pytorch"),
]
"""A line, what is said of it, the nearest right word."""
