"""Run the fast tests on the oldest and the newest supported Python found, and the node's half on the oldest it claims.

Each version gets `.venv-py310` and the like, made once and kept until pyproject.toml or requirements/light.txt change.
Where only one version is found, the fast tests have already run on it and nothing more is done.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys

CLIENT = ("3.10", "3.11", "3.12", "3.13")
NODE_ONLY = ("3.8", "3.9")
NODE_PACKAGES = ("plan", "state", "agent", "inrank")
INPUTS = ("pyproject.toml", "requirements/light.txt")


def find(version: str) -> str | None:
    """A Python of this version that starts: on PATH, or where pyenv and uv keep theirs."""
    home = os.path.expanduser("~")
    pyenv = os.environ.get("PYENV_ROOT", os.path.join(home, ".pyenv"))
    patterns = (
        os.path.join(pyenv, "versions", version + ".*", "bin", "python" + version),
        os.path.join(home, ".local/share/uv/python/cpython-%s.*" % version, "bin", "python" + version),
    )
    found = [shutil.which("python" + version), *(path for pattern in patterns for path in sorted(glob.glob(pattern)))]
    return next((path for path in found if path and starts(path)), None)


def starts(python: str) -> bool:
    return subprocess.call([python, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def environment(version: str, python: str) -> str:
    """The interpreter of this version's environment, made or renewed if what it is made from has changed."""
    folder = ".venv-py" + version.replace(".", "")
    inner = os.path.join(folder, "bin", "python")
    stamp = os.path.join(folder, ".stamp")
    if os.path.exists(stamp) and all(os.path.getmtime(path) <= os.path.getmtime(stamp) for path in INPUTS):
        return inner
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.check_call([python, "-m", "venv", folder])
    pip = [inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.check_call([*pip, "--editable", ".", "--requirement", "requirements/light.txt"])
    with open(stamp, "w", encoding="utf-8"):
        pass
    return inner


def test_client(version: str, python: str) -> int:
    print("==> fast tests on Python %s" % version, flush=True)
    inner = environment(version, python)
    fast = ["-q", "-n", "2", "-m", "not slow and not serial", "-p", "no:cacheprovider", "tests/unit"]
    return subprocess.call([inner, "-m", "pytest", *fast])


def test_node(version: str, python: str) -> int:
    """What travels to a node imports on a Python that only nodes have, without the client's package around it."""
    print("==> the agent's modules on Python %s" % version, flush=True)
    program = "import importlib, sys, types\npackage = sys.modules['worldsize'] = types.ModuleType('worldsize')\n"
    program += "package.__path__ = ['src/worldsize']\nfor name in sys.argv[1:]: importlib.import_module(name)"
    return subprocess.call([python, "-B", "-c", program, *node_modules()])


def node_modules() -> list[str]:
    files = [path for part in NODE_PACKAGES for path in sorted(glob.glob("src/worldsize/%s/*.py" % part))]
    names = [os.path.splitext(path)[0].replace(os.sep, ".")[len("src.") :] for path in files]
    return ["worldsize.errors", *(name for name in names if not name.endswith("__"))]


def main() -> int:
    clients = [(version, python) for version in CLIENT if (python := find(version))]
    nodes = [(version, python) for version in NODE_ONLY if (python := find(version))]
    chosen = clients[:1] + clients[-1:] if len(clients) > 1 else []
    codes = [test_client(*pair) for pair in chosen] + [test_node(*pair) for pair in nodes[:1]]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
