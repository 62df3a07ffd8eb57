"""Run the unit tests on the oldest and the newest Python found here: `python -m scripts.testing.other_pythons`.

The modules that travel to nodes are imported on the oldest Python that they claim. Where only one version is found, the
unit tests have already run on it.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys

from scripts.environments.pythons import CLIENT, NODE_ONLY, find
from scripts.testing.lanes import ROOT

NODE_PACKAGES = ("common", "trust", "plan", "state", "agent", "inrank")


def test_client(version: str) -> int:
    """pytest's exit code for the unit tests on this version, in an environment of its own."""
    print("==> unit tests on Python %s" % version, flush=True)
    made = subprocess.call([sys.executable, "-m", "scripts.environments", "py" + version], cwd=ROOT)
    if made:
        return made
    python = os.path.join(ROOT, ".venv-py" + version, "bin", "python")
    words = ["-q", "-n", "2", "-m", "not slow and not timing", "-p", "no:cacheprovider", "tests/unit"]
    path = os.path.join(ROOT, "src")
    return subprocess.call([python, "-m", "pytest", *words], cwd=ROOT, env={**os.environ, "PYTHONPATH": path})


def test_node(version: str, python: str) -> int:
    """Import what travels to a node on a Python that only nodes have, without the client's package around it."""
    print("==> the agent's modules on Python %s" % version, flush=True)
    program = "import importlib, sys, types\npackage = sys.modules['worldsize'] = types.ModuleType('worldsize')\n"
    program += "package.__path__ = ['src/worldsize']\nfor name in sys.argv[1:]: importlib.import_module(name)"
    return subprocess.call([python, "-B", "-c", program, *node_modules()], cwd=ROOT)


def node_modules() -> list[str]:
    folders = [os.path.join("src", "worldsize", part) for part in NODE_PACKAGES]
    found = (glob.glob(folder + "/**/*.py", root_dir=ROOT, recursive=True) for folder in folders)
    files = [path for paths in found for path in sorted(paths)]
    names = [os.path.splitext(path)[0].replace(os.sep, ".")[len("src.") :] for path in files]
    return ["worldsize.errors", *(name for name in names if not name.endswith("__"))]


def main() -> int:
    clients = [version for version in CLIENT if find(version)]
    nodes = [(version, python) for version in NODE_ONLY if (python := find(version))]
    chosen = [clients[0], clients[-1]] if len(clients) > 1 else []
    codes = [test_client(version) for version in chosen] + [test_node(*pair) for pair in nodes[:1]]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
