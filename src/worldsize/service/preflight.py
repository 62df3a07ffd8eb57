"""Everything that would go wrong with a run, found before anything is created."""

from __future__ import annotations

import os
import shlex

from worldsize.compute.base import CheckResult, Compute
from worldsize.plan.environ import contradictions
from worldsize.plan.launch import Plan
from worldsize.service.places import Places
from worldsize.spec.job import Input, Job, service_only

_INTERPRETERS = ("python", "python3", "bash", "sh")
_REMOTE = ("azureml:", "http://", "https://", "abfss://", "abfs://", "wasbs://", "wasb://", "s3://", "gs://", "adl://")


def preflight(job: Job, plan: Plan, compute: Compute, places: Places) -> list[CheckResult]:
    """All findings at once, errors first."""
    found = [
        *_code(job, places),
        *_script(job, places),
        *_inputs(job, places),
        *_rank_variables(job, plan, places),
        *_only_the_service(job, places),
        *compute.check(job, plan),
    ]
    return sorted(found, key=lambda result: result.level != "error")


def script_of(job: Job) -> str | None:
    """The script that the command's first words name, relative to the code: `python -u train.py …` → train.py."""
    words = list(job.argv)
    if not words:
        try:
            words = shlex.split(job.command.strip().splitlines()[0], comments=True)
        except (ValueError, IndexError):
            return None
    if not words or os.path.basename(words[0]) not in _INTERPRETERS:
        return None
    for word in words[1:]:
        if word in ("-u", "-B", "-O", "-s", "-E", "-I", "-x", "-e"):
            continue
        plain = word.endswith((".py", ".sh")) and not any(sign in word for sign in "$`*?~{")
        return word if plain and not word.startswith("-") else None
    return None


def _code(job: Job, places: Places) -> list[CheckResult]:
    if job.code is None or os.path.isdir(job.code):
        return []
    if job.code.startswith(_REMOTE):
        what, hint = "code must be a local directory here", "clone it, and name the directory"
    elif os.path.exists(job.code):
        what, hint = "%s is not a directory" % job.code, "name the directory that holds the script"
    else:
        what, hint = "no such directory: %s" % job.code, "mend `code:`, which is relative to the job file"
        if places.at("code") == "--code":
            hint = "mend --code, which is relative to the current directory"
    return [CheckResult("error", what, places.at("code"), hint)]


def _script(job: Job, places: Places) -> list[CheckResult]:
    script = script_of(job)
    if script is None or (job.code and not os.path.isdir(job.code)):
        return []
    if os.path.isabs(script):
        missing, looked = not os.path.exists(script), script
    elif job.code is None:
        missing, looked = True, "nowhere: the job names no code"
    else:
        missing, looked = not os.path.exists(os.path.join(job.code, script)), job.code
    if not missing:
        return []
    hint = "the command runs in the snapshot of `code:`; name the script relative to it"
    if job.code is None:
        hint = "say `code: .` to have the job file's directory snapshotted, and run there"
    return [CheckResult("error", "script not found: %s (looked in %s)" % (script, looked), places.at("command"), hint)]


def _inputs(job: Job, places: Places) -> list[CheckResult]:
    found = []
    for name, value in job.inputs.items():
        if not isinstance(value, Input) or value.path is None:
            continue
        key = "inputs.%s.path" % name
        if value.path.startswith(_REMOTE):
            found.append(
                CheckResult(
                    "error",
                    "%s cannot be read here" % value.path,
                    places.at(key),
                    "download it, and name the local path",
                )
            )
        elif not os.path.exists(value.path):
            found.append(CheckResult("error", "no such file or directory: %s" % value.path, places.at(key), None))
        elif not _readable(value.path):
            found.append(
                CheckResult("error", "cannot be read: %s" % value.path, places.at(key), "mend its permissions")
            )
    return found


def _readable(path: str) -> bool:
    return os.access(path, os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK)


def _rank_variables(job: Job, plan: Plan, places: Places) -> list[CheckResult]:
    return [
        CheckResult(
            "error",
            "%s is a rank variable: the plan makes it %s, the job %s"
            % (name, expected, job.environment_variables[name]),
            places.at("environment_variables." + name),
            "leave it out: every rank gets the right value",
        )
        for name, expected in contradictions(plan, job.environment_variables)
    ]


def _only_the_service(job: Job, places: Places) -> list[CheckResult]:
    found = []
    keys = service_only(job)
    if keys:
        found.append(CheckResult("notice", "kept, but only Azure ML honours: %s" % ", ".join(keys)))
    if job.environment is not None:
        what = "the environment is not built yet: the command runs in the current Python"
        found.append(CheckResult("notice", what, places.at("environment")))
    return found
