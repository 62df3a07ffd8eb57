"""Every key of a job: what it takes, what it means. Reading, overriding and the JSON schema all follow this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from worldsize.plan.environ import CONVENTIONS
from worldsize.spec.job import MAX_RANKS

ASSET_TYPES = ("uri_file", "uri_folder", "mltable", "custom_model", "mlflow_model", "triton_model")
INPUT_MODES = ("ro_mount", "download", "direct", "eval_mount", "eval_download")
OUTPUT_MODES = ("rw_mount", "upload", "mount", "direct")
SERVICE_TYPES = ("ssh", "tensor_board", "vs_code", "jupyter_lab", "custom")
SERVICE_TYPES_OF_THE_SERVICE = ("TensorBoard", "VSCode", "JupyterLab", "RayDashboard", "Tracking", "Studio")
IDENTITY_TYPES = ("managed", "user_identity", "aml_token")
IDENTITY_TYPES_OF_THE_SERVICE = ("managed_identity", "ManagedIdentity", "UserIdentity", "AMLToken")
MAX_SECONDS = 10 * 365 * 86400


class Key(NamedTuple):
    """One key.

    kind      "text"       text
              "as_text"    text, or a number or boolean taken as the text it is written as
              "path"       a local path, made absolute, or a URI
              "int" "number" "flag"
              "texts"      a list of texts
              "words"      text, or a list of texts
              "text_map"   names to as_text
              "labels"     the same, and nothing counts as empty text
              "any"        a mapping, kept untouched
              "object"     a mapping with the keys of `keys`
              "objects"    names to such mappings
              "inputs" "outputs" "environment" "conda" "distribution": those values
    choices   the only texts allowed, whatever their case
    minimum, maximum   inclusive; `above` exclusive
    blank     whether text may be empty
    """

    kind: str
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    blank: bool = True
    keys: Mapping[str, Key] = {}


Keys = Mapping[str, Key]


def _count(doc: str, minimum: int = 1) -> Key:
    return Key("int", doc, minimum=minimum, maximum=MAX_RANKS)


def _port(doc: str) -> Key:
    return Key("int", doc, minimum=1, maximum=65535)


INPUT: Keys = {
    "type": Key("text", "What the path holds.", choices=ASSET_TYPES),
    "path": Key("path", "A local path, relative to the job file, or a URI.", blank=False),
    "mode": Key("text", "How a service brings the data to the node.", choices=INPUT_MODES),
    "optional": Key("flag", "The input may be left out; use it inside $[[ ]] in the command."),
    "description": Key("text", "What this input is."),
}
OUTPUT: Keys = {
    "type": Key("text", "What the path will hold.", choices=ASSET_TYPES),
    "mode": Key("text", "How a service takes the data from the node.", choices=OUTPUT_MODES),
    "path": Key("path", "Where to write; without it, inside the run directory.", blank=False),
    "name": Key("text", "The name that a service registers the output under.", blank=False),
    "version": Key("as_text", "The version that a service registers the output under.", blank=False),
    "description": Key("text", "What this output is."),
}
RESOURCES: Keys = {
    "instance_count": _count("Number of nodes."),
    "instance_type": Key("text", "The service's machine size."),
    "shm_size": Key("as_text", "Shared memory of the service's container, such as 2g."),
    "docker_args": Key("words", "Extra arguments of the service's container."),
    "locations": Key("texts", "Where the service may place the job."),
    "max_instance_count": _count("The most nodes the service may use."),
    "properties": Key("any", "Properties for the service."),
}
LIMITS: Keys = {
    "timeout": Key("number", "Seconds after which the run is cancelled.", above=0, maximum=MAX_SECONDS),
}
QUEUE_SETTINGS: Keys = {
    "job_tier": Key("text", "The service's tier.", choices=("spot", "basic", "standard", "premium", "null")),
    "priority": Key("text", "The service's priority.", choices=("low", "medium", "high")),
}
SERVICE: Keys = {
    "type": Key(
        "text",
        "ssh, tensor_board, vs_code, jupyter_lab or custom.",
        choices=SERVICE_TYPES + SERVICE_TYPES_OF_THE_SERVICE,
    ),
    "job_service_type": Key("text", "The older name of type.", choices=SERVICE_TYPES + SERVICE_TYPES_OF_THE_SERVICE),
    "nodes": Key("as_text", "all, or a node's index."),
    "port": _port("The port of the service."),
    "log_dir": Key("text", "TensorBoard's log directory."),
    "ssh_public_keys": Key("text", "Keys that may log in."),
    "properties": Key("any", "Properties of the service."),
}
IDENTITY: Keys = {
    "type": Key(
        "text",
        "The identity that the service runs the job as: managed, user_identity or aml_token.",
        choices=IDENTITY_TYPES + IDENTITY_TYPES_OF_THE_SERVICE,
    ),
    "client_id": Key("text", "A managed identity's client."),
    "object_id": Key("text", "A managed identity's object."),
    "msi_resource_id": Key("text", "A managed identity's resource."),
}
BUILD: Keys = {
    "path": Key("path", "The directory with the Dockerfile.", blank=False),
    "dockerfile_path": Key("text", "The Dockerfile, relative to path."),
}
ENVIRONMENT: Keys = {
    "name": Key("text", "The environment's name."),
    "version": Key("as_text", "The environment's version."),
    "description": Key("text", "What this environment is."),
    "tags": Key("labels", "Labels."),
    "properties": Key("labels", "Properties for the service."),
    "image": Key("text", "A container image."),
    "conda_file": Key("conda", "A conda environment file, or its content."),
    "build": Key("object", "A container build.", keys=BUILD),
    "os_type": Key("text", "linux or windows.", choices=("linux", "windows")),
    "inference_config": Key("any", "For the service."),
    "datastore": Key("text", "Where the service uploads to."),
}
_PROCESSES = _count("Processes on each node; usually its number of GPUs.")
DISTRIBUTION_KEYS: Mapping[str, Keys] = {
    "pytorch": {
        "process_count_per_instance": _PROCESSES,
        "launcher": Key(
            "text",
            "direct: ranks are started with torch's variables set; torchrun: one torchrun per node starts them.",
            choices=("direct", "torchrun"),
        ),
    },
    "tensorflow": {
        "worker_count": _count("Workers; by default one per node."),
        "parameter_server_count": _count("Parameter servers.", minimum=0),
    },
    "mpi": {"process_count_per_instance": _PROCESSES},
    "ray": {
        "port": _port("The head's port."),
        "address": Key("text", "The address of a cluster that runs already."),
        "include_dashboard": Key("flag", "Whether to start the dashboard."),
        "dashboard_port": _port("The dashboard's port."),
        "head_node_additional_args": Key("text", "Extra arguments of the head."),
        "worker_node_additional_args": Key("text", "Extra arguments of the workers."),
    },
    "none": {"process_count_per_instance": _PROCESSES},
}
JOB: Keys = {
    "$schema": Key("text", "The schema that editors validate with."),
    "type": Key("text", "Always command.", choices=("command",)),
    "name": Key("text", "The job's name: letters, digits, '-', '_' and '.'.", blank=False),
    "display_name": Key("text", "The name shown to people."),
    "experiment_name": Key("text", "The experiment that the run belongs to."),
    "description": Key("text", "What this job is."),
    "tags": Key("labels", "Labels."),
    "properties": Key("labels", "Properties for the service."),
    "command": Key("text", "What each rank executes, by bash, in the code directory.", blank=False),
    "argv": Key("texts", "The exact words to execute without a shell, in place of command."),
    "code": Key("path", "The directory to snapshot, relative to the job file.", blank=False),
    "environment": Key("environment", "What the ranks run in: a name, file:…, or an inline environment."),
    "environment_variables": Key("text_map", "Variables of every rank; they win over every convention."),
    "distribution": Key("distribution", "How the ranks find each other."),
    "compute": Key("text", "Where to run: the name of a compute.", blank=False),
    "resources": Key("object", "How many nodes, and what the service should give.", keys=RESOURCES),
    "limits": Key("object", "When to give up.", keys=LIMITS),
    "inputs": Key("inputs", "Values and data that ${{inputs.name}} stands for."),
    "outputs": Key("outputs", "What the job leaves behind; ${{outputs.name}} is a writable directory."),
    "queue_settings": Key("object", "For the service.", keys=QUEUE_SETTINGS),
    "services": Key("objects", "Interactive services, for the service.", keys=SERVICE),
    "identity": Key("object", "For the service.", keys=IDENTITY),
    "parent_job_name": Key("text", "For the service."),
    "conventions": Key("texts", "Narrow the environment conventions to these.", choices=CONVENTIONS),
    "grace": Key("number", "Seconds between TERM and KILL when ranks are stopped.", minimum=0, maximum=MAX_SECONDS),
    "threads": Key("int", "OMP_NUM_THREADS of each rank.", minimum=1, maximum=65536),
    "bind": Key("text", "auto: bind ranks to CPUs where sensible; none: never.", choices=("auto", "none")),
    "share": Key("text", "group: open the run directory to the group.", choices=("group",)),
    "share_gpus": Key("flag", "Several processes may share a GPU."),
    "visible_devices": Key("flag", "Set CUDA_VISIBLE_DEVICES for each rank."),
    "slurm": Key("any", "Options of Slurm computes."),
    "hpcpack": Key("any", "Options of HPC Pack computes."),
}
