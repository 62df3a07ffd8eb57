"""The properties of a machine that decide which packages fit, and what is compiled: its platform, C library and GPU
driver, its compilers, MPI, CUDA and NCCL. The prerequisites of an environment ask for some of these, in some version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from worldsize.errors import UsageError

_PLATFORMS = {"x86_64": "64", "aarch64": "aarch64", "ppc64le": "ppc64le", "arm64": "arm64"}
_DRIVER = "/proc/driver/nvidia/version"
_VIRTUAL = re.compile(r"(__[a-z0-9_]+)(?:\s*=\s*([^\s=]+)(?:\s*=\s*([^\s=]+))?)?")
_WANTED = re.compile(r"([A-Za-z0-9_.+-]+?)\s*(?:(>=|==|>|<=|<)\s*(\d+(?:\.\d+)*))?")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_NUMBER = re.compile(r"\d+")
_TIMEOUT = 20
_COMPARE: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": lambda found, wanted: found >= wanted,
    "<=": lambda found, wanted: found <= wanted,
    "==": lambda found, wanted: found[: len(wanted)] == wanted,
    ">": lambda found, wanted: found > wanted,
    "<": lambda found, wanted: found < wanted,
}
_ALIASES = {"cuda-driver": "cuda", "gpu": "cuda", "mpicc": "mpi", "openmpi": "mpi", "cuda-toolkit": "nvcc"}
_HINTS = {
    "cuda": "build where there is a GPU: build_on: compute",
    "mpi": "load a module that has mpicc: modules: [openmpi]; or name it: variables: {MPICC: …}",
    "gcc": "load a newer one: modules: [gcc]; or install it with conda: gxx_linux-64",
    "g++": "load a newer one: modules: [gcc]; or install it with conda: gxx_linux-64",
    "nvcc": "load a module that has it: modules: [cuda]; or install it with conda: cuda-nvcc",
    "nccl": "download it with fetch:, and name its directory: variables: {HOROVOD_NCCL_HOME: …}",
}
_GCC = ("gcc", "gxx", "compilers", "c-compiler", "cxx-compiler", "gcc_linux-64", "gxx_linux-64")
_CONDA_PACKAGES = {
    "gcc": _GCC,
    "g++": _GCC,
    "mpi": ("openmpi", "mpich", "mpi4py"),
    "nvcc": ("cuda-nvcc", "cuda-toolkit", "cudatoolkit-dev", "cuda"),
    "nccl": ("nccl",),
    "cmake": ("cmake",),
    "ninja": ("ninja",),
}
_NCCL_VARIABLES = ("HOROVOD_NCCL_HOME", "NCCL_HOME", "NCCL_ROOT", "PREFIX", "CUDA_HOME")


def platform() -> str:
    """Return this machine's platform by its name in conda, such as linux-64."""
    system = os.uname()
    name = "osx" if system.sysname == "Darwin" else system.sysname.lower()
    return f"{name}-{_PLATFORMS.get(system.machine, system.machine)}"


def glibc_version() -> str | None:
    """Return the version of this machine's glibc, such as "2.36"; None if it has another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return None
    return version if name == "glibc" else None


def driver_version() -> str | None:
    """Return the version of the NVIDIA driver that is loaded, such as "550.54.15"; None without one."""
    try:
        with open(_DRIVER, encoding="ascii", errors="replace") as file:
            found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", file.readline())
    except OSError:
        return None
    return found[1] if found else None


def machine_versions() -> list[str]:
    """Return the glibc and GPU driver versions of this machine, such as "glibc 2.36". They represent its conda virtual
    packages in a fingerprint if the user has named none. They are cheap to find, and enough to distinguish machines.
    The solver itself uses rattler's detection."""
    found = {"glibc": glibc_version(), "driver": driver_version()}
    return ["{} {}".format(*item) for item in found.items() if item[1]]


def all_virtual_packages(said: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return all conda virtual packages of nodes for which the user has named some (`said`), each as (name, version,
    build): those of any Linux, this machine's processor, and its C library unless another is named. A GPU driver is
    included only if it is named. Raise UsageError for an invalid virtual package."""
    kernel = re.match(r"\d+(?:\.\d+)*", os.uname().release)
    found = {
        "__unix": ("0", "0"),
        "__linux": (kernel[0] if kernel else "0", "0"),
        "__archspec": ("1", os.uname().machine),
        **({"__glibc": (glibc_version() or "0", "0")} if glibc_version() else {}),
    }
    for each in said:
        name, version, build = parse_virtual_package(each)
        found[name] = (version, build)
    return [(name, *rest) for name, rest in found.items()]


def parse_virtual_package(text: str) -> tuple[str, str, str]:
    """Return the name, version and build of a conda virtual package such as "__cuda=12.4". Raise UsageError for any
    other text."""
    found = _VIRTUAL.fullmatch(text.strip())
    if not found:
        raise UsageError(
            f"{text!r:.60} is not a virtual package", "virtual_packages", "write __cuda=12.4 or __glibc=2.28"
        )
    return found[1], found[2] or "0", found[3] or "0"


def find_version(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the version on this machine of a tool with a known name (gcc, mpi, nccl) or of any program. "" if its
    version is unknown, None if it is not on this machine. `cuda` is the GPU's driver."""
    tool = _ALIASES.get(name, name)
    if tool in _FINDERS:
        return _FINDERS[tool](environ)
    if tool in ("gcc", "g++"):
        program = environ.get("CC" if tool == "gcc" else "CXX", tool)
        return _version_of([program, "-dumpfullversion", "-dumpversion"], environ)
    return _version_of([tool, "--version"], environ)


def tool_of(wanted: str) -> str:
    """Return the tool that a prerequisite of an environment, such as `gcc>=7.2`, is about, by its main name: `mpi` for
    `openmpi`. Raise UsageError for an invalid prerequisite."""
    parsed = _WANTED.fullmatch(wanted.strip())
    if not parsed:
        raise UsageError(
            f"{wanted!r:.60} is not a prerequisite", "prerequisites", "write gcc>=7.2, mpi, cuda or a program"
        )
    return _ALIASES.get(parsed[1], parsed[1])


def tools_from_conda(conda: Sequence[str]) -> list[str]:
    """Return the build tools (gcc, mpi, nvcc, …) that the conda specs `conda` provide, so that the machine need not
    have them."""
    names = {re.split(r"[\s=<>!~\[]", each.rpartition("::")[2].strip(), maxsplit=1)[0] for each in conda}
    return [tool for tool, packages in _CONDA_PACKAGES.items() if names & set(packages)]


def tool_versions(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the tools on this machine that a compiled wheel depends on (compilers, MPI, CUDA, NCCL),
    with the platform and glibc. "?" for a tool of unknown version; missing tools are omitted."""
    found = {name: find_version(name, environ) for name in ("gcc", "g++", "mpi", "nvcc", "nccl")}
    known = {name: version or "?" for name, version in found.items() if version is not None}
    return {"platform": platform(), "glibc": glibc_version() or "", **known}


def is_condition_met(condition: str, environ: Mapping[str, str]) -> bool:
    """Return whether this machine has what the condition asks for, such as `cuda` or `mpi>=4`, or lacks it, as with `no
    cuda`."""
    if condition.startswith("no "):
        return not is_condition_met(condition[3:].strip(), environ)
    return problem(condition, environ) is None


def problem(wanted: str, environ: Mapping[str, str]) -> str | None:
    """Return a text that explains why this machine does not meet a prerequisite such as `gcc>=7.2`, usually with a
    hint. None if it is met. Raise UsageError for an invalid prerequisite."""
    tool = tool_of(wanted)
    parsed = _WANTED.fullmatch(wanted.strip())
    assert parsed is not None
    name, sign, version = parsed.groups()
    mend = _HINTS.get(tool, "install it, or load a module that has it")
    found = find_version(name, environ)
    if found is None:
        what = "no CUDA driver on this machine" if tool == "cuda" else f"{name} is not on this machine"
        return "{} ({})".format(what, mend.replace("a newer one", "one"))
    if version is None:
        return None
    if not found:
        return f"{name} does not report its version, and {wanted} is required"
    if _COMPARE[sign](version_numbers(found), version_numbers(version)):
        return None
    return f"{name} is {found}, and {wanted} is required ({mend})"


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _driver(environ: Mapping[str, str]) -> str | None:
    """Return the newest CUDA version that this machine's GPU driver supports, as nvidia-smi prints it. None if no
    driver is loaded, according to /proc; "" if one is loaded and nvidia-smi is missing, fails or prints no version."""
    said = _output(["nvidia-smi"], environ)
    cuda = re.search(r"CUDA Version:\s*(\d+\.\d+)", said or "")
    if cuda:
        return cuda[1]
    return "" if driver_version() else None


def _mpi(environ: Mapping[str, str]) -> str | None:
    compiler = environ.get("MPICC", "mpicc")
    for words in ([compiler, "--showme:version"], [compiler, "-v"], [compiler, "--version"]):
        said = _output(words, environ)
        named = re.search(r"(?:Open MPI|MPICH version|MVAPICH2?|Intel\(R\) MPI Library)\D*(\d+(?:\.\d+)+)", said or "")
        if named:
            return named[1]
    return None if _output([compiler, "--version"], environ) is None else ""


def _nccl(environ: Mapping[str, str]) -> str | None:
    roots = [environ[name] for name in _NCCL_VARIABLES if environ.get(name)] + ["/usr", "/usr/local/cuda"]
    for root in roots:
        try:
            with open(os.path.join(root, "include", "nccl.h"), encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        parts = [re.search(rf"#define\s+NCCL_{name}\s+(\d+)", text) for name in ("MAJOR", "MINOR", "PATCH")]
        return ".".join(part[1] for part in parts if part)
    return None


def _version_of(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    said = _output(words, environ)
    if said is None:
        return None
    version = _VERSION.search(said) or _NUMBER.search(said)
    return version[0] if version else ""


_FINDERS = {"cuda": _driver, "nccl": _nccl, "mpi": _mpi}


def _output(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the stdout and stderr of the command `words`, regardless of its exit code. The program is looked up on the
    PATH of `environ`. None if the program is missing, does not end in time or prints no valid text."""
    import subprocess

    from worldsize.agent.posix.processes import find_program

    try:
        program = find_program(words[0].split(" ")[0], environ)
        argv = [program, *words[0].split(" ")[1:], *words[1:]]
        done = subprocess.run(
            argv, env=dict(environ), cwd=os.sep, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout + done.stderr
