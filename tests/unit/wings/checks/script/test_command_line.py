"""Which script a command starts; in doubt none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.wings.checks.script.reading.command_line import ScriptCommand, script_command


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "train.py"], ScriptCommand("train.py", "", ())),
        (
            ["/opt/env/bin/python3.11", "-u", "-W", "ignore", "a/b.py", "--x", "1"],
            ScriptCommand("a/b.py", "", ("--x", "1")),
        ),
        (["python", "-m", "pkg.train", "-v"], ScriptCommand("", "pkg.train", ("-v",))),
        (["./train.py", "x"], ScriptCommand("./train.py", "", ("x",))),
        (["env", "A=1", "python", "t.py"], ScriptCommand("t.py", "", ())),
        (["bash", "-c", "python t.py --lr 0.1"], ScriptCommand("t.py", "", ("--lr", "0.1"))),
        (["/bin/bash", "-ec", "cd src; python t.py | tee log"], ScriptCommand("t.py", "", (), directory="src")),
        (
            ["bash", "-c", ". e.sh && A=1 exec python t.py 'a b' \\\n --c"],
            ScriptCommand("t.py", "", ("a b", "--c")),
        ),
        (["bash", "-c", "echo hello\npython t.py > out.txt"], ScriptCommand("t.py", "", ())),
        (["bash", "-c", "mkdir -p x && ls"], None),
        (["bash", "-c", "python a.py; python b.py"], None),
        (["bash", "-c", "if true; then python a.py; fi"], None),
        (["bash", "-c", "(python a.py)"], None),
        (["bash", "-c", "python $(ls *.py)"], None),
        (["bash", "-c", "python $SCRIPT.py"], None),
        (["bash", "-c", "cd $HOME && python t.py"], None),
        (["bash", "-c", "srun -n 4 python t.py"], None),
        (["bash", "-c", "python 't.py"], None),
        (["bash", "-c"], None),
        (["bash", "run.sh"], None),
        (["python", "-c", "print(1)"], None),
        (["python"], None),
        (["python", "-m"], None),
        (["java", "t.py"], None),
        ([], None),
        ([""], None),
        (["bash", "-c", ""], None),
    ],
)
def test_the_script_of_a_command(argv: list[str], expected: ScriptCommand | None) -> None:
    assert script_command(argv) == expected


def test_torchrun_and_its_options() -> None:
    options = ["--nnodes=2", "--nproc-per-node", "4", "--standalone", "-m"]
    command = script_command(["python", "-m", "torch.distributed.run", *options, "a.b", "--lr", "1"])
    found = {"nnodes": "2", "nproc_per_node": "4", "standalone": "", "module": ""}
    assert command == ScriptCommand("", "a.b", ("--lr", "1"), "torchrun", found)
    assert script_command(["torchrun", "--no-python", "train.sh"]) is None
    assert script_command(["torchrun", "--nproc_per_node"]) is None


@pytest.mark.parametrize("argv", [["deepspeed", "--num_gpus", "4", "t.py", "x"], ["accelerate", "launch", "t.py", "x"]])
def test_other_launchers(argv: list[str]) -> None:
    assert script_command(argv) == ScriptCommand("t.py", "", ("x",), argv[0])


@settings(max_examples=cases(40), deadline=None)
@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_words_are_survived(argv: list[str]) -> None:
    script_command(argv)
    script_command(["bash", "-c", " ".join(argv)])
