"""Table of every key of a job, with its type and meaning. Reading, overriding and the JSON schema all use this
table."""

from __future__ import annotations

from worldsize.jobspec.distributions.base import count_key
from worldsize.jobspec.keys.hpcpack import HPCPACK
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.keys.slurm import SETUP, SLURM
from worldsize.plan.array import MAX_ELEMENTS
from worldsize.plan.rank_variables import CONVENTIONS

ASSET_TYPES = ("uri_file", "uri_folder", "mltable", "custom_model", "mlflow_model", "triton_model")
VALUE_TYPES = ("string", "number", "integer", "boolean")
INPUT_MODES = ("ro_mount", "download", "direct", "eval_mount", "eval_download")
OUTPUT_MODES = ("rw_mount", "upload", "mount", "direct")
SERVICE_TYPES = ("ssh", "tensor_board", "vs_code", "jupyter_lab", "custom")
SERVICE_TYPES_OF_THE_SERVICE = ("TensorBoard", "VSCode", "JupyterLab", "RayDashboard", "Tracking", "Studio")
IDENTITY_TYPES = ("managed", "user_identity", "aml_token")
IDENTITY_TYPES_OF_THE_SERVICE = ("managed_identity", "ManagedIdentity", "UserIdentity", "AMLToken")
MAX_SECONDS = 10 * 365 * 86400


INPUT: Keys = {
    "type": Key("text", "The type of the data at the path.", choices=ASSET_TYPES),
    "path": Key("path", "A local path, relative to the job file, or a URI.", blank=False),
    "mode": Key("text", "How the data gets to the node: read in place, or copied to its disk.", choices=INPUT_MODES),
    "sha256": Key("text", "The checksum of a file or archive: 64 hexadecimal digits.", blank=False),
    "max_size": Key("as_text", "The most to download and to unpack: 500 MB, 20 GiB, or bytes.", blank=False),
    "optional": Key("flag", "The input may be left out; use it inside $[[ ]] in the command."),
    "description": Key("text", "A description of this input."),
}
INPUT_TYPE: Keys = {
    "type": Key("text", "The type of a value.", choices=(*VALUE_TYPES, *ASSET_TYPES, "path")),
    "optional": Key("flag", "The input may have no value; use it inside $[[ ]] in the command."),
    "min": Key("number", "The smallest value."),
    "max": Key("number", "The greatest value."),
    "enum": Key("texts", "The values allowed."),
    "mode": Key("text", "How the data gets to the node.", choices=INPUT_MODES),
    "description": Key("text", "A description of this input."),
}
OUTPUT: Keys = {
    "type": Key("text", "The type of the data at the path.", choices=ASSET_TYPES),
    "mode": Key("text", "How a service takes the data from the node.", choices=OUTPUT_MODES),
    "path": Key("path", "Where to write; default: inside the run directory.", blank=False),
    "name": Key("text", "The name that a service registers the output under.", blank=False),
    "version": Key("as_text", "The version that a service registers the output under.", blank=False),
    "description": Key("text", "A description of this output."),
}
RESOURCES: Keys = {
    "instance_count": count_key("Number of nodes."),
    "instance_type": Key("text", "The service's machine size."),
    "shm_size": Key("as_text", "Shared memory of each node, such as 2g.", warned=True),
    "docker_args": Key("words", "Extra arguments of the service's container."),
    "locations": Key("texts", "Where the service may place the job."),
    "max_instance_count": count_key("The most nodes the service may use."),
    "properties": Key("any", "Properties for the service."),
}
LIMITS: Keys = {
    "timeout": Key(
        "number", "Seconds after which the run is ended: FAILED, TIME_LIMIT.", above=0, maximum=MAX_SECONDS, quoted=True
    ),
}
WATCHDOG: Keys = {
    "timeout": Key(
        "number",
        "Seconds without a sign of life of any rank after which the run is examined; 0: never.",
        minimum=0,
        maximum=MAX_SECONDS,
    ),
    "action": Key("text", "What to do about a run that hangs: report, or stop it.", choices=("report", "stop")),
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
    "nodes": Key("text", "all: on every node.", choices=("all",)),
    "port": Key("int", "The port of the service.", minimum=1, maximum=65535, quoted=True),
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
FOR_THE_SERVICE_IN_INPUTS = ("datastore", "path_on_compute")
"""Keys for the place to which the service uploads a local path, and for the place at which it mounts data."""

SET_BY_THE_SERVICE = ("id", "status", "creation_context", "log_files", "parameters")
SET_BY_THE_SERVICE_IN_SERVICES = ("endpoint", "status", "error_message")
"""Keys that `az ml job show` writes, and that Azure's client ignores in a file."""

JOB: Keys = {
    "$schema": Key("text", "The schema that editors validate with."),
    "type": Key("text", "Always command.", choices=("command",)),
    "name": Key("text", "The job's name: letters, digits, '-', '_' and '.'.", blank=False),
    "display_name": Key("text", "The display name."),
    "experiment_name": Key("text", "The experiment that the run belongs to."),
    "description": Key("text", "A description of this job."),
    "tags": Key("labels", "Labels.", warned=True),
    "properties": Key("labels", "Properties for the service.", warned=True),
    "command": Key("text", "What each rank executes, by bash, in the code directory.", blank=False),
    "argv": Key("texts", "The exact words to execute without a shell, instead of command."),
    "batch_script": Key(
        "text",
        "Instead of command, a Slurm batch script: its path, relative to the job file, or its text.",
        blank=False,
    ),
    "code": Key("path", "The directory to snapshot, relative to the job file.", blank=False),
    "additional_includes": Key(
        "paths", "Files and directories to put into the snapshot of the code, under their last names.", blank=False
    ),
    "environment": Key("environment", "The environment of the ranks: a name, a path, or its content."),
    "environment_variables": Key("text_map", "Variables of every rank; they override every convention."),
    "distribution": Key("distribution", "How the ranks find each other."),
    "autotune": Key("wing", "Finds the best configuration by short trial runs.", home="wings.trials.keys"),
    "compute": Key("text", "Where to run: the name of a compute.", blank=False),
    "resources": Key("object", "The number of nodes, and the service's resources.", keys=RESOURCES),
    "limits": Key("object", "Limits of the run.", keys=LIMITS),
    "watchdog": Key("object", "When a silent run counts as hung, and what to do.", keys=WATCHDOG),
    "inputs": Key("inputs", "Values and data for ${{inputs.name}}."),
    "input_types": Key("objects", "The types of the inputs' values.", keys=INPUT_TYPE),
    "outputs": Key("outputs", "The job's outputs; ${{outputs.name}} is a writable directory."),
    "queue_settings": Key("object", "For the service.", keys=QUEUE_SETTINGS),
    "services": Key(
        "objects", "TensorBoard and JupyterLab next to the first rank; others on Azure ML alone.", keys=SERVICE
    ),
    "identity": Key("object", "For the service.", keys=IDENTITY),
    "parent_job_name": Key("text", "For the service."),
    "conventions": Key("texts", "Narrow the environment conventions to these.", choices=CONVENTIONS),
    "grace": Key("number", "Seconds between TERM and KILL when ranks are stopped.", minimum=0, maximum=MAX_SECONDS),
    "hang_timeout": Key(
        "number",
        "Seconds of idleness after which remaining ranks count as hung once others have ended with 0; 0: never.",
        minimum=0,
        maximum=MAX_SECONDS,
    ),
    "notify": Key("text", "The bash command that is notified of each run's start, hang, failure and end; empty: none."),
    "preload": Key("preload", "auto, off, or modules that each node imports once for all of its ranks."),
    "strict": Key(
        "flag", "An uncaught exception, a failed step or a process left behind fails a run whose ranks ended with 0."
    ),
    "threads": Key("int", "OMP_NUM_THREADS of each rank.", minimum=1, maximum=65536),
    "bind": Key("text", "auto: bind ranks to CPUs where sensible; none: never.", choices=("auto", "none")),
    "secrets": Key("texts", "Variables of your shell that every rank gets; no file keeps them after the run."),
    "share": Key("text", "group: open the run directory to the group.", choices=("group",)),
    "share_gpus": Key("flag", "Several processes may share a GPU."),
    "visible_devices": Key("flag", "Set CUDA_VISIBLE_DEVICES for each rank."),
    "data_parallel": Key(
        "text",
        "Train a single-process script on all ranks; its batch size is that of all (split) or each rank's (scale).",
        choices=("split", "scale"),
    ),
    "virtual_gpus": Key(
        "int", "Rehearse on this machine: each node has this many virtual GPUs.", minimum=1, maximum=1024
    ),
    "offline": Key("flag", "The nodes reach no network; a rehearsal cuts it."),
    **SETUP,
    "slurm": Key("object", "Options of Slurm computes.", keys=SLURM),
    "hpcpack": Key("object", "Options of HPC Pack computes.", keys=HPCPACK),
    "stage": Key("wing", "Downloads before the start, for nodes without a network.", home="wings.staging.spec"),
    "matrix": Key("matrix", "Inputs that vary: lists of values; one run for each combination."),
    "count": Key("int", "The number of identical runs.", minimum=1, maximum=MAX_ELEMENTS),
    "at_once": Key("int", "The most runs of several at the same time.", minimum=1, maximum=MAX_ELEMENTS),
}
