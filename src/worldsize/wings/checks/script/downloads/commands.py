"""Detection of shell commands that download."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from worldsize.wings.checks.script.downloads.download import Download
from worldsize.wings.checks.script.reading.shell_text import ShellCommand

_STARTERS = frozenset((
    "srun", "mpirun", "mpiexec", "orterun", "prun", "jsrun", "aprun", "xargs", "timeout", "nice", "numactl", "taskset",
    "stdbuf", "apptainer", "singularity", "docker", "podman", "poetry", "parallel", "flock", "retry", "module", "sudo",
))  # fmt: skip
_PIP = r"pip\d?(\.\d+)?$"
_PYTHON = r"(python|pypy)\d?(\.\d+)?$"
_NEAR = r"(https?|ftp)://(localhost|127\.|\[::1\])|localhost|127\.|file:"
_ASKS = frozenset(("--help", "-h", "--version", "-V"))
_CONDA = ("conda", "mamba", "micromamba")
_KNOWN = frozenset((*_CONDA, "uv", "hf", "huggingface-cli", "wget", "curl", "git", "apt", "apt-get"))
_KEPT_OFFLINE = frozenset(("PIP_NO_INDEX", "UV_OFFLINE", "UV_NO_INDEX", "CONDA_OFFLINE", "HF_HUB_OFFLINE"))


def command_download(command: ShellCommand) -> Download | None:
    """Return the Download that a shell command causes, such as `pip install` or `git clone`; None if the command
    downloads nothing, or if its options or variables keep it offline."""
    words = _from_program(command.words)
    if not words or _ASKS & set(words[1:]) or _KEPT_OFFLINE & set(command.variables):
        return None
    program, rest = os.path.basename(words[0]), words[1:]
    if (re.match(_PYTHON, program) or program == "…") and rest[:2] == ("-m", "pip"):
        program, rest = "pip", rest[2:]
    if re.match(_PIP, program):
        return _pip(program if program == "pip3" else "pip", rest)
    if program == "uv" and rest[:1] == ("pip",):
        return _pip("uv pip", rest[1:])
    if program in _CONDA:
        return _conda(program, rest)
    if program in ("hf", "huggingface-cli"):
        return _hub(program, rest)
    if program in ("wget", "curl"):
        return _web(program, rest)
    if program == "git":
        return _git(rest)
    if program in ("apt", "apt-get") and _verb(rest) == "install":
        return Download(f"{program} install", "service")
    return None


def _from_program(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a shell command without a starter such as srun, from the known program that it starts on.
    Return all words if there is no starter or no known program."""
    if words and os.path.basename(words[0]) in _STARTERS:
        for number, word in enumerate(words[1:], 1):
            name = os.path.basename(word)
            if name in _KNOWN or re.match(_PIP, name) or re.match(_PYTHON, name):
                return tuple(words[number:])
    return tuple(words)


def _verb(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _arguments(words: Sequence[str]) -> list[str]:
    return [word for word in words[1:] if not word.startswith("-")]


def _pip(name: str, words: Sequence[str]) -> Download | None:
    verb = _verb(words)
    if verb not in ("install", "download") or {"--no-index", "--offline"} & set(words):
        return None
    named = _arguments(words[words.index(verb) :])
    if "--no-deps" in words and named and all(_is_path(word) for word in named):
        return None
    return Download(f"{name} {verb}", "pip")


def _is_path(word: str) -> bool:
    return word.startswith((".", "/", "~", "file:")) or word.endswith((".whl", ".tar.gz"))


def _conda(program: str, words: Sequence[str]) -> Download | None:
    if words[:1] == ("env",):
        program, words = f"{program} env", words[1:]
    verb = _verb(words)
    if verb not in ("install", "create", "update") or {"--offline", "--clone", "--use-local"} & set(words):
        return None
    return Download(f"{program} {verb}", "service")


def _hub(program: str, words: Sequence[str]) -> Download | None:
    if _verb(words) != "download":
        return None
    named = _arguments(words[words.index("download") :])
    is_set = "dataset" in words or "--repo-type=dataset" in words
    name = named[0] if named and re.fullmatch(r"[\w./-]+", named[0]) else ""
    return Download(f"{program} download", "huggingface", ("datasets/" if is_set else "") + name if name else "")


def _web(program: str, words: Sequence[str]) -> Download | None:
    addresses = [word for word in words if "://" in word]
    if not words or ((addresses or None) and all(re.match(_NEAR, word) for word in addresses)):
        return None
    return None if not addresses and any(re.match(_NEAR, word) for word in words) else Download(program, "data")


def _git(words: Sequence[str]) -> Download | None:
    while words and words[0] in ("-C", "-c"):
        words = words[2:]
    verb = _verb(words)
    if verb not in ("clone", "pull", "fetch"):
        return None
    named = _arguments(words[words.index(verb) :])
    if any(_is_path(word) or re.match(_NEAR, word) for word in named[:1]):
        return None
    return Download(f"git {verb}", "data")
