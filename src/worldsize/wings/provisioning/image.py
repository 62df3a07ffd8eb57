"""Container images: how a runtime calls them, and the words that start a rank in one. Pure but for pulling.

Apptainer (Singularity is its elder name): each rank is a process of `apptainer exec`, started by the agent on the host.
Pyxis: Slurm's srun starts the agents themselves in the container (its option --container-image, which enroot serves).
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from worldsize.errors import UsageError
from worldsize.store.content_store import ContentStore
from worldsize.trust.secrets import mask_text

APPTAINER, SINGULARITY, PYXIS, NONE = "apptainer", "singularity", "pyxis", "none"
_SCHEME = re.compile(r"[a-z][a-z0-9+-]*://")
_FILE_ENDINGS = (".sif", ".simg", ".sqsh", ".img", ".squashfs")
_MAX_MESSAGE_LENGTH = 600

HOST_VARIABLES = (
    "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME",
    "LOADEDMODULES", "_LMFILES_", "MODULEPATH",
)  # fmt: skip
"""Variables that name what is not in the image."""


def is_file(image: str) -> bool:
    """Whether an image is named by a path: a file, or a directory that was unpacked."""
    return image.endswith(_FILE_ENDINGS) or image.startswith(("/", "./", "../", "~"))


def apptainer_address(image: str) -> str:
    """A bare name is Docker's."""
    return image if is_file(image) or _SCHEME.match(image) else "docker://" + image


def enroot_address(image: str) -> str:
    """enroot parts registry and name with a #."""
    if is_file(image):
        return image
    name = image.removeprefix("docker://")
    first, slash, rest = name.partition("/")
    if "#" in name or not slash or not (set(first) & set(".:") or first == "localhost"):
        return name
    return f"{first}#{rest}"


def has_password(image: str) -> bool:
    """Whether an image's address holds a user and a password."""
    login, at, _ = image.removeprefix("docker://").partition("/")[0].rpartition("@")
    return bool(at) and ":" in login


def apptainer_command(
    program: str, image: str, binds: Sequence[str], gpus: bool, options: Sequence[str]
) -> tuple[str, ...]:
    """What stands in front of a rank's command: it is executed in the image, with `binds` at their own paths, in the
    directory where it would be outside. Variables come along, and so do signals and the exit code."""
    words = [program, "exec", *(["--nv"] if gpus else [])]
    for bind in _outermost_directories(binds):
        words += ["--bind", bind.replace(":", "\\:") if ":" in bind else bind]
    return (*words, *options, image)


def pyxis_options(image: str, binds: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Of the srun that starts the agents."""
    mounts = ",".join(f"{bind}:{bind}" for bind in _outermost_directories(binds))
    return ("--container-image=" + image, "--container-mounts=" + mounts, "--no-container-mount-home", *options)


def _outermost_directories(binds: Sequence[str]) -> list[str]:
    """Those that lie in no other."""
    found: list[str] = []
    for bind in sorted(set(binds)):
        if not any(bind == other or bind.startswith(other.rstrip("/") + "/") for other in found):
            found.append(bind)
    return found


def pull_image(image: str, runtime: str, program: str, store: ContentStore, environ: Mapping[str, str]) -> str:
    """The image as one file that the nodes see, fetched once. UsageError with what the runtime said."""
    name = enroot_address(image) if runtime == PYXIS else apptainer_address(image)
    key = hashlib.sha256(name.encode()).hexdigest()[:32]
    path = os.path.join(store.directory, "images", key)
    ending = ".sqsh" if runtime == PYXIS else ".sif"

    def fill(part: str) -> None:
        os.makedirs(part, 0o700)
        target = os.path.join(part, "image" + ending)
        store.report_notice(f"fetching the container image {mask_text(image)}")
        words = [program, "import", "-o", target, "docker://" + name] if runtime == PYXIS else []
        _run(words or [program, "pull", target, name], image, environ)

    store.make(path, fill, "image")
    return os.path.join(path, "image" + ending)


def _run(argv: Sequence[str], image: str, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            argv, env=environ, cwd=os.sep, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"cannot be fetched: {argv[0]}: {error.strerror}", mask_text(image)) from None
    if done.returncode:
        said = mask_text(done.stderr.strip() or done.stdout.strip())[-_MAX_MESSAGE_LENGTH:]
        what = f"cannot be fetched: {os.path.basename(argv[0])} said:\n{said}"
        raise UsageError(what, mask_text(image), "mend its name")
