"""Who started what, where, when and with what: `record.json`, with secrets out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from worldsize.environment.git import read_git
from worldsize.environment.secrets import mask, mask_argv, mask_tree


def make_record(
    version: str,
    job: Mapping[str, Any],
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    code_dir: str,
    code_digest: str | None,
    now: float,
) -> dict[str, Any]:
    """The record of one run, of JSON's kinds; `job` as resolved, `now` in Unix seconds. Starts no process."""
    system = os.uname()
    return {
        "version": 1,
        "worldsize": version,
        "python": {"version": sys.version.split()[0], "executable": sys.executable},
        "platform": "%s %s %s" % (system.sysname, system.release, system.machine),
        "host": system.nodename,
        "user": _user(environ),
        "pid": os.getpid(),
        "created": now,
        "argv": mask_argv(argv),
        "cwd": cwd,
        "code": {"directory": code_dir, "digest": code_digest},
        "git": read_git(code_dir),
        "job": mask_tree(job),
        "environment": {name: mask(name, value) for name, value in sorted(environ.items())},
    }


def _user(environ: Mapping[str, str]) -> str:
    """The account's name, or its number where it has none (as in containers)."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return environ.get("USER") or str(os.geteuid())
