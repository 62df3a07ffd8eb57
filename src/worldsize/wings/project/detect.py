"""The detection of what `init` needs to know about a directory and this machine.

It only reads. Files that cannot be read are treated as missing.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from functools import partial
from glob import glob
from typing import NamedTuple

from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected

_SCRIPTS = ("*.py", "src/*.py")
_PREFERRED = ("train.py", "main.py", "run.py", "run_ddp.py")
_NO_SCRIPTS = re.compile(r"(test_.*|.*_test|conftest|setup|__init__|__main__|_.*)\.py")
_DISTRIBUTED = re.compile(
    r"\b(torch\.distributed|from torch import distributed|init_process_group|DistributedDataParallel"
    r"|import (deepspeed|accelerate|lightning)|from (deepspeed|accelerate|lightning)\b|pytorch_lightning)"
)
_MAIN = re.compile(r"^if\s+__name__\s*==", re.MULTILINE)
_MOST_BYTES = 1 << 20
_PATIENCE = 5.0


class ScriptOption(NamedTuple):
    """An option of a script's argparse. `default` is None if the option is required."""

    flag: str
    default: int | float | str | None

    @property
    def name(self) -> str:
        return self.flag.lstrip("-").replace("-", "_")


class TrainingScript(NamedTuple):
    """A training script. `path` is relative to the directory. `distributed` is whether it seems to distribute itself.
    `positionals` are arguments that it requires."""

    path: str
    distributed: bool = False
    options: tuple[ScriptOption, ...] = ()
    positionals: tuple[str, ...] = ()


class SlurmCluster(NamedTuple):
    partitions: tuple[str, ...] = ()
    gpus_per_node: int | None = None


def find_scripts(directory: str) -> list[str]:
    """Return the paths of the Python scripts in the directory and in its src/, relative to the directory, with the most
    likely training script first. Tests and modules such as setup.py are left out."""
    found = [path for pattern in _SCRIPTS for path in sorted(glob(pattern, root_dir=directory))]
    named = [path for path in found if not _NO_SCRIPTS.fullmatch(os.path.basename(path))]
    paths = [path for path in named if os.path.isfile(os.path.join(directory, path))]
    return sorted(paths, key=lambda path: _likelihood(directory, path))


def _likelihood(directory: str, path: str) -> tuple[int, int]:
    name = os.path.basename(path)
    if name in _PREFERRED:
        return 0, _PREFERRED.index(name)
    text = _read(os.path.join(directory, path))
    return 1, -bool(_DISTRIBUTED.search(text)) * 2 - bool(_MAIN.search(text))


def read_script(directory: str, path: str) -> TrainingScript:
    text = _read(os.path.join(directory, path))
    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and _is_add_argument(node)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        calls = []
    options: dict[str, ScriptOption] = {}
    positionals = []
    for call in calls:
        flags = [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        flag = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
        if flag.startswith("-"):
            option = _option(flag, call)
            if option is not None:
                options.setdefault(option.name, option)
        elif flag and not _keyword(call, "nargs") and not _keyword(call, "default"):
            positionals.append(flag)
    return TrainingScript(path, bool(_DISTRIBUTED.search(text)), tuple(options.values()), tuple(positionals))


def _is_add_argument(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"


def _option(flag: str, call: ast.Call) -> ScriptOption | None:
    """Return the option that a call of argparse's add_argument in a script defines. None for a flag without a value,
    and for a default that is not a plain number or text, or is empty."""
    if not re.fullmatch(r"--[A-Za-z_][A-Za-z0-9_-]*", flag) or _keyword(call, "action") or _keyword(call, "nargs"):
        return None
    required = _keyword(call, "required")
    if isinstance(required, ast.Constant) and required.value is True:
        return ScriptOption(flag, None)
    node = _keyword(call, "default")
    try:
        default = ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
    if isinstance(default, bool) or not isinstance(default, (int, float, str)):
        return None
    return ScriptOption(flag, default) if default != "" else None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def find_slurm_cluster() -> SlurmCluster | None:
    """Return the partitions and the GPUs per node of the Slurm cluster of this machine, with the default partition
    first; None if there is no `sinfo`. Both are empty if Slurm does not answer."""
    if shutil.which("sinfo") is None:
        return None
    from worldsize.compute.slurm.cluster import partitions
    from worldsize.compute.slurm.commands import run_slurm

    try:
        rows = partitions(partial(run_slurm, environ=os.environ, timeout=_PATIENCE))
    except (ConfigError, SubmitAgain, SubmitRejected):
        return SlurmCluster()
    named = [row for row in rows if re.fullmatch(r"[\w.-]+", row.name)]
    names = tuple(row.name for row in sorted(named, key=lambda row: not row.default))
    return SlurmCluster(names, max((row.gpus_per_node for row in rows), default=0) or None)
