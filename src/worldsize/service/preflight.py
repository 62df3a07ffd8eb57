"""Everything that would go wrong with a run, found before anything is created."""

from __future__ import annotations

import os
import shlex

from worldsize.compute.base import CheckResult, Compute
from worldsize.plan.launch import Plan
from worldsize.service.places import Places
from worldsize.spec.job import Input, Job, service_only

_INTERPRETERS = ("python", "python3", "bash", "sh")


def preflight(job: Job, plan: Plan, compute: Compute, places: Places) -> list[CheckResult]:
    """All findings at once, errors first."""
    found = [
        *_code(job, places),
        *_script(job, places),
        *_inputs(job, places),
        *_environment_files(job, places),
        *_rank_variables(job, plan, places),
        *_remote_outputs(job, places),
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
    if _is_remote(job.code):
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
        if isinstance(value, Input) and value.path is not None:
            found += _input(name, value, value.path, places)
    return found


def _input(name: str, value: Input, path: str, places: Places) -> list[CheckResult]:
    at = places.at("inputs.%s.path" % name)
    if _is_remote(path):
        what, hint = "%s cannot be read here" % path, "download it, and name the local path"
    elif not os.path.exists(path):
        what, hint = "no such file or directory: %s" % path, None
    elif not _readable(path):
        what, hint = "cannot be read: %s" % path, "mend its permissions"
    elif value.type == "uri_file" and os.path.isdir(path):
        what, hint = "is a directory, but the input's type is uri_file: %s" % path, "say type: uri_folder"
    elif value.type == "uri_folder" and not os.path.isdir(path):
        return _file_for_folder("inputs.%s.type" % name, path, at, places)
    else:
        return []
    return [CheckResult("error", what, at, hint)]


def _file_for_folder(key: str, path: str, at: str, places: Places) -> list[CheckResult]:
    """uri_folder is also what an input is that says no type: that alone is no mistake."""
    if places.lines and not places.says(key):
        return []
    what = "is a file, but the input's type is uri_folder: %s" % path
    return [CheckResult("error" if places.says(key) else "notice", what, at, "say type: uri_file")]


def _environment_files(job: Job, places: Places) -> list[CheckResult]:
    """The local files that the environment names."""
    environment = job.environment
    named: dict[str, object] = {}
    if isinstance(environment, str):
        if environment.startswith("file:"):
            named["environment"] = environment[len("file:") :]
    elif environment:
        build = environment.get("build") or {}
        named["environment.conda_file"] = environment.get("conda_file")
        named["environment.build.path"] = build.get("path")
        if build.get("path") and build.get("dockerfile_path"):
            named["environment.build.dockerfile_path"] = os.path.join(build["path"], build["dockerfile_path"])
    return [
        CheckResult("error", "no such file or directory: %s" % path, places.at(key), "mend it, or leave it out")
        for key, path in named.items()
        if isinstance(path, str) and not _is_remote(path) and not os.path.exists(path)
    ]


def _remote_outputs(job: Job, places: Places) -> list[CheckResult]:
    return [
        CheckResult(
            "notice",
            "only Azure ML honours %s: it is written to outputs/%s of the run" % (output.path, name),
            places.at("outputs.%s.path" % name),
        )
        for name, output in job.outputs.items()
        if output.path and _is_remote(output.path)
    ]


def _is_remote(path: str) -> bool:
    from worldsize.spec.paths import is_remote

    return is_remote(path)


def _readable(path: str) -> bool:
    return os.access(path, os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK)


def _rank_variables(job: Job, plan: Plan, places: Places) -> list[CheckResult]:
    if not job.environment_variables:
        return []
    from worldsize.plan.contradictions import UNSET, contradictions

    wanted = {name: plan.environment[name] for name in job.environment_variables}
    return [
        CheckResult(
            "error",
            "%s is a rank variable: the plan makes it %s, the job %s" % (name, expected, wanted[name]),
            places.at("environment_variables." + name),
            "leave it out: %s"
            % ("no one value is right for every rank" if expected == UNSET else "every rank gets the right value"),
        )
        for name, expected in contradictions(plan, wanted)
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
