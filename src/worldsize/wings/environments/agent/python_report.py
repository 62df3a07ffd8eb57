"""Report on a node's Python and its packages, as one line of JSON. It travels as text, and needs no other file.

The first argument is JSON. `modules` are imported. `distributions` are installed packages whose modules are imported.
`optional` are treated in the same way, but only if they are installed. Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_PATIENCE = 300
_QUERY = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"]


def make_report(asked: Dict[str, Any]) -> Dict[str, Any]:
    """Return the report on this node's Python, its packages, glibc and GPUs, as values that JSON can represent. `asked`
    lists the modules and distributions to import."""
    installed = _installed_distributions()
    wanted = dict.fromkeys(asked["modules"], "")
    for name in (*asked["distributions"], *(each for each in asked["optional"] if _normalized_name(each) in installed)):
        found = installed.get(_normalized_name(name))
        module = _module(name, found) if found is not None else name
        wanted[module] = found.version if found is not None else ""
    return {
        "host": platform.node(),
        "python": platform.python_version(),
        "prefix": sys.prefix,
        "machine": platform.machine(),
        "glibc": _glibc(),
        "needs_glibc": _needed_glibc(installed),
        "driver": _driver(),
        "gpus": _gpus(),
        "imports": {name: _import(name, version) for name, version in wanted.items()},
        "torch": _torch() if "torch" in wanted else None,
    }


def _installed_distributions() -> Dict[str, Any]:
    from importlib import metadata

    return {_normalized_name(each.metadata["Name"] or ""): each for each in metadata.distributions()}


def _normalized_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _module(name: str, distribution: Any) -> str:
    """Return the module name by which the distribution `name` is imported. If it contains several packages and modules,
    choose the one with the distribution's own name, else the first."""
    listed = distribution.read_text("top_level.txt")
    if listed:
        names = listed.split()
    else:
        tops = {str(file).split("/")[0] for file in distribution.files or () if str(file).endswith(".py")}
        names = sorted(top[: -len(".py")] if top.endswith(".py") else top for top in tops)
    own = re.sub(r"[-.]+", "_", name)
    fit = [each for each in names if each.isidentifier() and not each.startswith("_")]
    return own if own in fit or not fit else fit[0]


def _run(script: str, *words: str) -> Any:
    """Run a Python script in a process of its own, since an import may print, abort or never end. Raise
    TimeoutExpired."""
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, timeout=_PATIENCE)


def _import(name: str, version: str) -> Dict[str, Any]:
    script = "import sys, importlib as i; print('\\n' + str(getattr(i.import_module(sys.argv[1]), '__version__', '')))"
    try:
        done = _run(script, name)
    except subprocess.TimeoutExpired:
        return {"error": f"its import did not end within {_PATIENCE} s"}
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return {"error": said[-1] if said else f"its import ended with code {done.returncode}"}
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return {"version": lines[-1] if lines else version}


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").replace("glibc ", "")
    except (ValueError, OSError):
        return ""


def _needed_glibc(installed: Dict[str, Any]) -> str:
    """Return the newest glibc version that any installed wheel was built for, with the name of that wheel: "2.28
    numpy". "" if no wheel names one."""
    newest: Tuple[Tuple[int, int], str] = ((0, 0), "")
    for name, distribution in installed.items():
        for version in _glibc_versions(distribution.read_text("WHEEL") or ""):
            newest = max(newest, (version, name))
    (major, minor), found = newest
    return f"{major}.{minor} {found}" if found else ""


def _glibc_versions(wheel: str) -> List[Tuple[int, int]]:
    """Return a list with the glibc version (major, minor) that a wheel was built for, according to the tags in its
    WHEEL file `wheel`. Empty if there is none; the oldest if there are several, since it is enough."""
    tags = re.findall(r"(?m)^Tag: (.*)$", wheel)
    found = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)_", " ".join(tags))]
    found += [version for name, version in _LEGACY.items() if name + "_" in " ".join(tags)]
    return [min(found)] if found else []


def _driver() -> str:
    try:
        with open("/proc/driver/nvidia/version") as file:
            found = re.search(r"Module\s.*?(\d+\.\d+(?:\.\d+)?)", file.read())
    except OSError:
        return ""
    return found[1] if found else ""


def _gpus() -> List[List[str]]:
    """Return the name and compute capability of each of the node's GPUs. Empty if nvidia-smi cannot be run."""
    try:
        done = subprocess.run(_QUERY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.decode(errors="replace").splitlines() if done.returncode == 0 else []
    return [[part.strip() for part in line.split(",")] for line in lines if "," in line]


def _torch() -> Any:
    """Return what torch itself reports about CUDA on this node: its CUDA or HIP version, the number of GPUs, and the
    architectures that it was built for. None if torch cannot be imported."""
    script = (
        "import json, torch; c = torch.cuda; ok = c.is_available(); print('\\n' + json.dumps({"
        "'cuda': torch.version.cuda, 'hip': getattr(torch.version, 'hip', None), 'available': ok,"
        " 'devices': c.device_count() if ok else 0, 'built_for': c.get_arch_list()}))"
    )
    try:
        done = _run(script)
        return json.loads(done.stdout.decode().splitlines()[-1]) if done.returncode == 0 else None
    except (ValueError, IndexError, subprocess.TimeoutExpired):
        return None


if __name__ == "__main__":
    print(json.dumps(make_report(json.loads(sys.argv[1]))))
