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

NODE_PACKAGES = ("common", "trust", "plan", "state", "agent", "inrank", "wings/*/agent", "wings/*/inrank")


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
    """Import what travels to a node on a Python that only nodes have, without the client's package around it. What a
    wing has for ranks is compiled: it needs torch, or is a program."""
    print("==> the agent's modules on Python %s" % version, flush=True)
    return subprocess.call([python, "-B", "-c", IMPORTS, *node_files()], cwd=ROOT)


IMPORTS = """
import importlib, os, sys, types
package = sys.modules["worldsize"] = types.ModuleType("worldsize")
package.__path__ = ["src/worldsize"]
for path in sys.argv[1:]:
    if {"wings", "inrank"} <= set(path.split(os.sep)):
        with open(path, encoding="utf-8") as file:
            compile(file.read(), path, "exec")
    else:
        importlib.import_module(os.path.splitext(path)[0].replace(os.sep, ".")[len("src."):])
"""


def node_files() -> list[str]:
    folders = [os.path.join("src", "worldsize", part) for part in NODE_PACKAGES]
    found = (glob.glob(folder + "/**/*.py", root_dir=ROOT, recursive=True) for folder in folders)
    files = [path for paths in found for path in sorted(paths)]
    single = [os.path.join("src", "worldsize", name) for name in ("errors.py", "registry.py")]
    return [*single, *(path for path in files if not path.endswith("__.py"))]


def main() -> int:
    clients = [version for version in CLIENT if find(version)]
    nodes = [(version, python) for version in NODE_ONLY if (python := find(version))]
    chosen = [clients[0], clients[-1]] if len(clients) > 1 else []
    codes = [test_client(version) for version in chosen] + [test_node(*pair) for pair in nodes[:1]]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
