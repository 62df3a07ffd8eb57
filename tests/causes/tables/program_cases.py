"""Causes that lie in the program, or in what it was given."""

from __future__ import annotations

from causes.case import Case, raised, said
from causes.tables.data_cases import DATA_CASES
from causes.tables.rehearsal_cases import REHEARSAL_CASES

_ONE = """import os, time

if os.environ["RANK"] == "1":
    %s
time.sleep(60)
"""


def _one(statement: str) -> str:
    """A script of which rank 1 executes a statement, while the others wait."""
    return _ONE % statement


def _first(command: str) -> str:
    """A command of which rank 0 executes another, while the others wait."""
    return f"if [ $RANK = 0 ]; then {command}; else sleep 60; fi"


PROGRAM_CASES: tuple[Case, ...] = (
    Case(
        "rank-missing",
        """import os, sys, time

if os.environ["LOCAL_RANK"] == "0":
    os.execlp("env", "env", "-u", "RANK", "-u", "LOCAL_RANK", sys.executable, "worker.py")
time.sleep(60)
""",
        files={"worker.py": 'import os\n\nprint("worker", int(os.environ["RANK"]))\n'},
    ),
    Case(
        "rank-missing",
        """import os, time

import torch.distributed as dist

if os.environ["RANK"] == "0":
    del os.environ["MASTER_ADDR"]
    dist.init_process_group("gloo")
time.sleep(60)
""",
        needs=("torch",),
        variant="in init_process_group",
    ),
    Case("module-missing", _one("import lightning_bolts"), ranks=(1,)),
    Case(
        "import-failed",
        _one("from helpers import augment"),
        ranks=(1,),
        files={"helpers.py": "def normalise(image):\n    return image\n"},
    ),
    Case(
        "not-picklable",
        """import multiprocessing, os, time


def main():
    if os.environ["RANK"] == "0":
        process = multiprocessing.get_context("spawn").Process(target=lambda: None)
        process.start()
    time.sleep(60)


if __name__ == "__main__":
    main()
""",
    ),
    Case(
        "main-guard",
        """import multiprocessing, os, sys, time


def work():
    print("works")


if os.environ["RANK"] == "0":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
    sys.exit(process.exitcode)
time.sleep(60)
""",
        "supported",
    ),
    Case(
        "arguments",
        """import argparse, os, time

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
if os.environ["RANK"] == "0":
    print(parser.parse_args().lr)
time.sleep(60)
""",
        "supported",
        command="python train.py --learning-rate 0.1",
    ),
    Case(
        "arguments",
        """import os, time

import click


@click.command()
@click.option("--lr", type=float, required=True)
def main(lr):
    print(lr)


if os.environ["RANK"] == "0":
    main()
time.sleep(60)
""",
        "supported",
        needs=("click",),
        variant="click",
    ),
    Case(
        "arguments",
        said("Could not override 'optimizer.lrate'."),
        "supported",
        simulated="Hydra",
        variant="Hydra",
    ),
    Case(
        "path-missing",
        _one('open("data/shard-1.bin")'),
        ranks=(1,),
        quick=True,
    ),
    Case(
        "path-missing",
        "",
        "supported",
        command=_first("cat data/train.txt"),
        variant="printed by a program of the command",
    ),
    Case(
        "permission",
        """import os, time

if os.environ["RANK"] == "0":
    os.mkdir("private")
    os.chmod("private", 0)
    owner = os.geteuid()
    if owner == 0:
        os.seteuid(65534)
    try:
        open("private/model.bin")
    finally:
        os.seteuid(owner)
time.sleep(60)
""",
    ),
    Case(
        "permission",
        "",
        "supported",
        command=_first("./train.sh"),
        files={"train.sh": "#!/bin/sh\npython train.py\n"},
        variant="a script that is not executable",
    ),
    Case(
        "permission",
        raised("OSError", "[Errno 30] Read-only file system: '/data/cache/index.lock'"),
        simulated="Linux",
        variant="a file system that is read-only",
    ),
    Case("assertion", _one('assert len([1, 2]) == 3, "a batch of 2, and 3 were to come"'), ranks=(1,)),
    Case(
        "interrupted",
        _one("os.kill(os.getpid(), 2)"),
        ranks=(1,),
    ),
    Case(
        "loader-exception",
        """import os, time

from torch.utils.data import DataLoader


class Images:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"image": index}["label"]


if os.environ["RANK"] == "0":
    for batch in DataLoader(Images(), num_workers=1):
        print(batch)
time.sleep(60)
""",
        needs=("torch",),
    ),
    Case(
        "path-missing",
        """import os, time

from torch.utils.data import DataLoader


class Images:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        with open(f"images/{index:06}.jpg", "rb") as file:
            return file.read()


if os.environ["RANK"] == "0":
    for batch in DataLoader(Images(), num_workers=1):
        print(batch)
time.sleep(60)
""",
        needs=("torch",),
        variant="in a worker of a DataLoader",
    ),
    *DATA_CASES,
    *REHEARSAL_CASES,
)
