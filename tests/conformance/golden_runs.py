"""The golden runs of this release (tests/golden): `make golden` executes this file, which no other test run does. Each
test makes one run on one compute that ends in one way, and packs it with the answers about it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from compatibility import golden
from driver import Cli, wait_for

from worldsize.snapshot.agent_bundle import ensure_agent_bundle
from worldsize.version import VERSION
from worldsize_conformance.lifecycle import running
from worldsize_conformance.place import Place

FAILS = """\
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
sys.stdout.flush()
if os.environ["RANK"] == "1":
    raise ValueError("bad shard")
"""


def succeeded(place: Place) -> str:
    place.job("echo rank $RANK of $WORLD_SIZE; echo 42 > outputs/answer-$RANK.txt", "2x2")
    run = place.run("job.yml")
    place.fetch_outputs(run)
    return run


def failed(place: Place) -> str:
    place.write("train.py", FAILS)
    return place.run("-w", "2x1", "--", "python3", "train.py", code=1)


def killed(place: Place) -> str:
    place.job("ulimit -c 0; [ $RANK = 0 ] || kill -SEGV $$; sleep 60", "2x1")
    return place.run("job.yml", code=139)


def cancelled(place: Place) -> str:
    run = running(place)
    place.ok("cancel", run)
    place.wait_for_end(run)
    return run


def time_limit(place: Place) -> str:
    place.job("sleep 120", "2x1", limits={"timeout": 1}, grace=0.5)
    run = place.submit("job.yml")
    place.wait_for_end(run)
    return run


def lost(place: Place) -> str:
    run = running(place)
    for pid in place.processes():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: place.status(run)["state"] == "LOST", 60)
    return run


def array(place: Place) -> str:
    place.write("one.sh", 'echo "element $WORLDSIZE_ARRAY_INDEX"; exit $WORLDSIZE_ARRAY_INDEX\n')
    return place("run", "-q", "--count", "2", "--", "sh", "one.sh").err and place.latest().partition("_")[0]


EVERYWHERE = (succeeded, failed, killed, cancelled, time_limit)
ONLY_ON = {"lost": ("local",), "array": ("local", "slurm")}


@pytest.mark.parametrize("make", [*EVERYWHERE, lost, array], ids=lambda make: make.__name__)
def test_golden(place: Place, make: Callable[[Place], str], tmp_path: Path) -> None:
    ending, compute = make.__name__, place.target.name
    if compute == "slurm-alone" or compute not in ONLY_ON.get(ending, (compute,)):
        pytest.skip("there is no such run")
    place.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"])
    run = make(place)
    folder = golden.GOLDEN / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / ("%s-%s.tar.gz" % (compute, ending))
    golden.pack(os.path.realpath(place.path(run)), archive, names(place, tmp_path))
    if not (folder / golden.AGENT).exists():
        golden.pack_agent(ensure_agent_bundle(str(tmp_path / "agent"), small=True), folder / golden.AGENT)
    (tmp_path / "reader").mkdir()
    reader = Cli(str(tmp_path / "reader"))
    golden.unpack(archive, reader.home)
    answers = folder / golden.EXPECTED
    known = json.loads(answers.read_text()) if answers.exists() else {}
    known[archive.name.removesuffix(".tar.gz")] = golden.read(reader, run)
    answers.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n")


def names(place: Place, temporary: Path) -> dict[str, str]:
    """What stands for places of the machine that makes the runs."""
    root = str(Path(__file__).resolve().parents[2])
    python = os.path.realpath(sys.executable)
    return {
        os.path.realpath(place.root): "/home/anna/project",
        place.root: "/home/anna/project",
        str(temporary.parent): "/var/tests",
        root: "/opt/worldsize",
        sys.prefix: "/opt/environment",
        sys.base_prefix: "/usr",
        python: "/usr/bin/python3",
        os.path.dirname(python): "/usr/bin",
    }
