"""How long an environment of pip's packages takes: `worldsize env build` against `python -m venv` and `pip install`.

Twice: with caches that hold all packages, as for everybody's second environment, and with empty ones, where the package
index and the way to it count. `--index` names another index than the one that is configured. What is compared ends
alike: a virtual environment that imports every package. Ours has also been looked through, described and locked. A
second use, where the environment is there, is measured too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping

from harness import Bench, contest_rows, ratio, rounds, run

REQUIREMENTS = ("numpy", "pandas", "scikit-learn", "pyyaml", "tqdm", "requests", "jinja2")
IMPORTS = "import numpy, pandas, sklearn, yaml, tqdm, requests, jinja2"
OURS, PIP = "worldsize env build", "python -m venv; pip install"
AGAIN = "worldsize env build, once it is there"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", help="the package index to use, for all of them")


def main() -> None:
    with Bench("build", __doc__, configure) as bench:
        sample = {"warm": contest(bench, keep=True), "cold": contest(bench, keep=False)}
        for name, title in (("warm", "all packages in the caches"), ("cold", "empty caches")):
            head = ["way, %s" % title, "median s", "10 % to 90 %", "over pip"]
            bench.table("%d requirements, %s" % (len(REQUIREMENTS), title), head, contest_rows(sample[name], [PIP], 1))
        bench.limit("build over pip, warm", ratio(sample["warm"], OURS, PIP).median, 1)
        bench.limit("build over pip, cold", ratio(sample["cold"], OURS, PIP).median, 1)
        bench.limit("second use", statistics.median(sample["warm"][AGAIN]) * 1e3, 100, "ms")
        bench.finish(sample)


def contest(bench: Bench, keep: bool) -> dict[str, list[float]]:
    """Seconds of each way. With `keep` caches stay, and the second use is one of the ways."""
    place = os.path.join(bench.work, "warm" if keep else "cold")
    os.makedirs(place)
    with open(os.path.join(place, "requirements.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(REQUIREMENTS) + "\n")
    caches = {"UV_CACHE_DIR": os.path.join(place, "uv"), "PIP_CACHE_DIR": os.path.join(place, "pip")}
    index = {"UV_DEFAULT_INDEX": bench.options.index, "PIP_INDEX_URL": bench.options.index}
    environ = bench.environ(**caches, **(index if bench.options.index else {}), PIP_DISABLE_PIP_VERSION_CHECK="1")
    prefix = os.path.join(place, "venv")
    build = [bench.worldsize, "env", "build", "requirements.txt"]

    def anew(way: Callable[[], float], *left: str) -> Callable[[], float]:
        def timed() -> float:
            for path in (*left, *(() if keep else caches.values())):
                shutil.rmtree(path, ignore_errors=True)
            return way()

        return timed

    def ours() -> float:
        return run(build, environ, place, os.path.join(place, "prefix"))

    def pip() -> float:
        made = run([sys.executable, "-m", "venv", prefix], environ, place)
        python = os.path.join(prefix, "bin", "python")
        return made + run([python, "-m", "pip", "install", "--quiet", "-r", "requirements.txt"], environ, place)

    ways = {OURS: anew(ours, os.path.join(bench.home, "envs")), PIP: anew(pip, prefix)}
    if keep:
        ways[AGAIN] = ours
    sample = rounds(ways, bench.count(7, 2))
    with open(os.path.join(place, "prefix"), encoding="utf-8") as file:
        check(os.path.join(file.read().strip(), "bin", "python"), environ)
    check(os.path.join(prefix, "bin", "python"), environ)
    return sample


def check(python: str, environ: Mapping[str, str]) -> None:
    subprocess.run([python, "-c", IMPORTS], env=environ, check=True)


if __name__ == "__main__":
    main()
