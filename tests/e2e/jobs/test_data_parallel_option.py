"""`--data-parallel` and `data_parallel`: what reaches the plan, and where it is refused."""

from __future__ import annotations

import os

from driver import Cli

JOB = "command: python train.py\ncode: .\n"


def asked(cli: Cli, *words: str) -> list[str]:
    return cli.ok("run", "--dry-run", *words).lines


def test_the_option_with_and_without_a_way(cli: Cli) -> None:
    cli.write("train.py", "print(1)\n")
    job = cli.write("job.yml", JOB)
    command = ("--", "python", "train.py")
    for words, way in (
        (("-w", "1x2", "--data-parallel", *command), "split"),
        (("-w", "1x2", "--data-parallel=scale", *command), "scale"),
        (("--data-parallel", job), "split"),
        ((job, "--data-parallel", "-w", "2"), "split"),
        ((job, "--set", "data_parallel=scale"), "scale"),
    ):
        lines = asked(cli, *words)
        assert "WORLDSIZE_DATA_PARALLEL=" + way in lines and "PYTHONHASHSEED=0" in lines, words
    assert not any("DATA_PARALLEL" in line or "PYTHONHASHSEED" in line for line in asked(cli, job))


def test_what_is_no_way_and_no_training_of_ours_is_refused(cli: Cli) -> None:
    cli.write("train.py", "print(1)\n")
    wrong = cli("run", "--data-parallel=both", "--", "python", "train.py")
    assert wrong.code == 2 and "data_parallel" in wrong.err and "split" in wrong.err
    for kind in ("type: tensorflow\n  worker_count: 2", "type: pytorch\n  launcher: torchrun"):
        job = cli.write("other.yml", JOB + "data_parallel: split\ndistribution:\n  %s\n" % kind)
        refused = cli("run", job)
        assert refused.code == 2 and "data_parallel is for a torch script whose ranks worldsize starts" in refused.err


def test_nothing_of_it_is_there_when_not_asked_for(cli: Cli) -> None:
    plain = cli.run("--", "python", "-c", "import sys; assert 'worldsize_inrank.import_hook' not in sys.modules")
    assert os.listdir(cli.path(plain, "inrank", "worldsize_inrank")) == ["hangs"]
    asked_for = cli.run("--data-parallel", "--", "python", "-c", "import sys; assert 'torch' not in sys.modules")
    assert os.path.exists(cli.path(asked_for, "inrank", "worldsize_inrank", "data_parallel", "__init__.py"))
