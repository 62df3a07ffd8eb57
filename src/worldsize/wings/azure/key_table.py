"""The table of the meaning of each key of an Azure job file: kept, mapped, ignored, or impossible. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from worldsize.compute.base import CheckResult
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.environment import is_azure_name
from worldsize.jobspec.job import Input, Job
from worldsize.jobspec.keys.environment import OURS
from worldsize.jobspec.paths import is_remote
from worldsize.service.request import KeyOrigins, PlannedJob, SubmissionRequest
from worldsize.service.submission.plan_additions import service_plans
from worldsize.trust.secrets import mask_text
from worldsize.wings.azure.mappings import compute_name, data_location
from worldsize.wings.azure.notices import SERVICE_ONLY, SERVICE_ONLY_OUTPUTS

KEPT, MAPPED, IGNORED, IMPOSSIBLE = "kept", "mapped", "ignored", "impossible"
_ONE_ROW_BELOW = {"inputs": 3, "outputs": 3, "distribution": 2, "environment": 2, "resources": 2, "limits": 2,
                  "queue_settings": 2, "identity": 2, "services": 2}  # fmt: skip
"""The most words of the YAML path of a row, by the path's first word. For other first words it is one."""
_SERVICE_ONLY_ENVIRONMENT = ("version", "description", "tags", "properties", "os_type", "inference_config", "datastore")


class KeyRow(NamedTuple):
    """The meaning of a key that a job file sets. `key` is its YAML path.

    verdict  kept        the same meaning
             mapped      another meaning, which `meaning` states
             ignored     none, since only the service honours it; `meaning` states why
             impossible  the job is refused for it; `meaning` states why, and `fix` what to do
    """

    key: str
    verdict: str
    meaning: str = ""
    fix: str = ""


def key_rows(
    request: SubmissionRequest, planned: PlannedJob | None, problems: Sequence[CheckResult] = ()
) -> list[KeyRow]:
    """Return the rows of the table of the meaning of Azure's job keys: one KeyRow for each key that the job file, or an
    option of the command line, sets, in the file's order; none for a command without a file. `planned` is None if
    `problems`, errors of preflight, prevent a plan. Problems of keys that are not set have no row, and are left to the
    error."""
    origins = request.origins
    keys = _given_keys(origins)
    wrong = _problems_by_key(keys, problems, origins)
    rows = []
    for key in keys:
        if key in wrong:
            fixes = (each.hint for each in wrong[key] if each.hint)
            meaning = mask_text("; ".join(each.what for each in wrong[key]))
            rows.append(KeyRow(key, IMPOSSIBLE, meaning, mask_text("; ".join(fixes))))
        else:
            verdict, meaning = _row(key, request, planned)
            rows.append(KeyRow(key, verdict, mask_text(meaning)))
    return rows


def _problems_by_key(
    keys: Sequence[str], problems: Sequence[CheckResult], origins: KeyOrigins
) -> dict[str, list[CheckResult]]:
    """Return the preflight problems of each key in `keys`, as a mapping of key to a list of CheckResult: those at its
    place in the job file, and those of a related key that is not set."""
    found: dict[str, list[CheckResult]] = {}
    for problem in problems:
        where = problem.where or ""
        top = where.rpartition(": ")[2].partition(".")[0]
        exact = (key for key in keys if origins.of(key) == where)
        near = (key for key in keys if key.partition(".")[0] == top)
        key = next(exact, None) or next(near, None)
        if key is not None:
            found.setdefault(key, []).append(problem)
    return found


def _given_keys(origins: KeyOrigins) -> list[str]:
    """Return the YAML paths of the job's keys that have a row in the key table, each as deep as the table goes. A path
    that only contains others with rows is left out."""
    paths = dict.fromkeys(
        ".".join(words[: _ONE_ROW_BELOW.get(words[0], 1)])
        for words in (path.split(".") for path in (*origins.lines, *origins.options))
    )
    holders = {path.rpartition(".")[0] for path in paths} | {path.split(".")[0] for path in paths if "." in path}
    return [path for path in paths if path not in holders]


def _row(key: str, request: SubmissionRequest, planned: PlannedJob | None) -> tuple[str, str]:
    top, _, rest = key.partition(".")
    name, _, inner = rest.partition(".")
    job = request.job
    if key in SERVICE_ONLY or top in SERVICE_ONLY:
        return IGNORED, SERVICE_ONLY.get(key) or SERVICE_ONLY[top]
    if top == "compute":
        return _compute_row(request)
    if top == "environment":
        return _environment_row(rest, request, planned)
    if top == "distribution":
        return _distribution_row(rest, job)
    if top == "services":
        return _service_row(rest, job)
    if top == "inputs":
        return _input_row(name, inner, job, request.config)
    if top == "outputs":
        return _output_row(name, inner, job, request.config)
    return KEPT, _MEANINGS.get(key, "")


_MEANINGS: Mapping[str, str] = {
    "$schema": "for editors",
    "display_name": "the run's name",
    "experiment_name": "kept in the record",
    "description": "kept in the record",
    "tags": "kept in the record",
    "code": "copied into the run",
    "command": "by bash, once for each rank",
    "resources.shm_size": "a notice where a node has less shared memory",
    "slurm": "for computes of that type",
    "hpcpack": "for computes of that type",
}


def _compute_row(request: SubmissionRequest) -> tuple[str, str]:
    said = request.job.compute or ""
    if request.compute:
        return (KEPT, "") if request.compute == said else (MAPPED, f"{request.compute}, by --compute")
    meant = compute_name(said, request.config)
    if meant.name == said.removeprefix("azureml:"):
        return KEPT, ""
    return MAPPED, f"{meant.name}, the default compute" if meant.by_default else f"{meant.name}, by {meant.where}"


def _environment_row(inner: str, request: SubmissionRequest, planned: PlannedJob | None) -> tuple[str, str]:
    said = request.job.environment
    if isinstance(said, str):
        found = planned.environment if planned is not None else None
        nothing = found is not None and found.prefix is None and not (found.image or found.archive)
        return (MAPPED, _environment_text(planned)) if nothing or is_azure_name(said) else (KEPT, "")
    if inner in _SERVICE_ONLY_ENVIRONMENT:
        return IGNORED, "only the service reads it"
    if inner == "build" and said and isinstance(said.get("build"), Mapping):
        return IGNORED, f"no image is built; {_environment_text(planned)}"
    if inner == "image" and planned is not None and planned.environment is not None:
        unused = [each for each in planned.notices if each.where == request.origins.of("environment.image")]
        if unused:
            return IGNORED, unused[0].what
        if planned.environment.image is None:
            built = any(said.get(each) for each in ("conda_file", *OURS)) if said else False
            text = "its other keys are used, without the image"
            return (IGNORED, text) if built else (MAPPED, _environment_text(planned))
    return KEPT, ""


def _environment_text(planned: PlannedJob | None) -> str:
    """Return a text that names the environment in which the ranks of the planned job run, for a row of the key
    table."""
    if planned is None:
        return "the environment in [environment_map], else the current Python"
    found = planned.environment
    if found is None or (found.prefix is None and not found.image and not found.archive):
        return "the command runs in the current Python; [environment_map] names another environment"
    return f"{found.archive or found.prefix or found.image}"


def _distribution_row(name: str, job: Job) -> tuple[str, str]:
    kind = job.distribution.type if job.distribution else "none"
    if name in ("", "type") or kind not in DISTRIBUTIONS or name in set(DISTRIBUTIONS[kind].keys()):
        return KEPT, ""
    return IGNORED, f"is not a key of {kind}"


def _service_row(name: str, job: Job) -> tuple[str, str]:
    if name in service_plans(job):
        return KEPT, "starts next to the first rank; `status` shows its address"
    return IGNORED, "does not start here; `worldsize shell` opens a shell on a node"


def _input_row(name: str, inner: str, job: Job, config: Config) -> tuple[str, str]:
    value = job.inputs.get(name)
    if isinstance(value, str) and value.startswith("azureml:"):
        return KEPT, "the literal text: only `path:` of a mapping names data"
    if not isinstance(value, Input) or inner != "path":
        return KEPT, ""
    said = value.path or ""
    found = data_location(said, config.azure.get("data", {}))
    if found is not None:
        return MAPPED, f"{found}, fetched before the start" if is_remote(found) else found
    return KEPT, "fetched before the start" if is_remote(said) else ""


def _output_row(name: str, inner: str, job: Job, config: Config) -> tuple[str, str]:
    if inner in SERVICE_ONLY_OUTPUTS:
        return IGNORED, SERVICE_ONLY_OUTPUTS[inner]
    value = job.outputs.get(name)
    if inner != "path" or value is None or not is_remote(value.path or ""):
        return KEPT, ""
    found = data_location(value.path or "", config.azure.get("data", {}))
    return MAPPED, found if found is not None and not is_remote(found) else f"outputs/{name} of the run"
