"""Virtual nodes with a disk of their own and no network, as root and as an ordinary user; where not, it is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from driver import Cli

ROOT: tuple[str, ...] = ()
ORDINARY = ("unshare", "-U", "--map-user=1000", "--map-group=1000")
FORBIDDEN = (
    "unshare", "-Ur", "sh", "-c",
    'for kind in mnt net; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done; exec "$@"', "sh",
)  # fmt: skip
SCRIPT = """\
test $RANK = 0 && echo mine > $1.new && touch /dev/shm/${1##*/}
until test -e $WORLDSIZE_RUN_DIR/outputs/written; do test $RANK = 0 && touch $WORLDSIZE_RUN_DIR/outputs/written; done
cat $1.old $1.new 2>/dev/null
test -e /dev/shm/${1##*/} && echo memory
echo shared > $2/$RANK
tail -n +3 /proc/net/dev | cut -d: -f1
echo $HF_HUB_OFFLINE $HF_DATASETS_OFFLINE $TRANSFORMERS_OFFLINE
"""


@pytest.fixture
def mark() -> object:
    """A name in /tmp, with a file that is there before the run."""
    name = "/tmp/rehearsal-%s" % uuid.uuid4().hex
    Path(name + ".old").write_text("before\n")
    yield name
    for place in ("/tmp", "/dev/shm"):
        for path in Path(place).glob(os.path.basename(name) + "*"):
            path.unlink()


def rehearsed(cli: Cli, prefix: tuple[str, ...], mark: str) -> tuple[list[list[str]], str]:
    """What each rank printed, and what is said of the run."""
    shared = os.path.join(cli.root, "shared")
    os.mkdir(shared)
    cli.write("script.sh", SCRIPT)
    cli.write(
        "job.yml",
        "command: sh script.sh %s ${{outputs.shared}}\ncode: .\nvirtual_gpus: 1\noffline: true\n"
        "outputs: {shared: {path: %s}}\nresources: {instance_count: 2}\n" % (mark, shared),
    )
    command = [*prefix, sys.executable, "-m", "worldsize", "run", "-q", "job.yml"]
    done = subprocess.run(command, cwd=cli.project, env=cli.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert sorted(os.listdir(shared)) == ["0", "1"]
    run = cli.latest()
    return [cli.read(run, "attempt-0", "logs", "rank-%05d.log" % rank).split() for rank in (0, 1)], done.stderr


@pytest.mark.parametrize("prefix", [ROOT, ORDINARY], ids=["as-it-is", "ordinary"])
def test_each_node_has_its_own_disk_and_only_the_loopback(cli: Cli, prefix: tuple[str, ...], mark: str) -> None:
    (first, second), said = rehearsed(cli, prefix, mark)
    assert first == ["before", "mine", "memory", "lo", "1", "1", "1"]
    assert second == ["before", "lo", "1", "1", "1"]
    assert not os.path.exists(mark + ".new") and not os.path.exists("/dev/shm/" + os.path.basename(mark))
    assert "not cut" not in said and "share /tmp" not in said
    assert json.loads(cli.read(cli.latest(), "attempt-0", "isolation.json")) == {"network": "", "disks": ""}


def test_where_the_system_forbids_it_that_is_said(cli: Cli, mark: str) -> None:
    logs, said = rehearsed(cli, FORBIDDEN, mark)
    assert [log[:2] for log in logs] == [["before", "mine"]] * 2
    assert "the network was not cut: unshare: No space left on device" in said
    assert "the nodes share /tmp, so that a path that only node 0 has is found: unshare: " in said


def test_a_batch_script(cli: Cli) -> None:
    cli.write(
        "job.slurm",
        "#!/bin/sh\n#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:3\n"
        "srun sh -c 'nvidia-smi -L | wc -l; echo $WORLDSIZE_INRANK $WORLDSIZE_VIRTUAL_GPUS'\n",
    )
    result = cli("rehearse", "job.slurm")
    assert result.code == 0 and ", a rehearsal with 3 virtual GPUs per node" in result.err
    assert "the nodes of a batch script share /tmp" in result.err
    for rank in (0, 1):
        assert cli.read(cli.latest(), "attempt-0", "logs", "rank-%05d.log" % rank).split() == [
            "3",
            "virtual_gpu,hangs",
            "3",
        ]
