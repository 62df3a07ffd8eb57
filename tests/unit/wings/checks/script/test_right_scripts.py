"""Scripts that are right, in many styles: no word about any."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_bundles import Script, parametrized, scripts

from worldsize.wings.checks.script.findings import findings_of, script_findings
from worldsize.wings.checks.script.reading.program import read_program
from worldsize.wings.checks.script.request import ScriptRequest

EXAMPLES = Path(__file__).parents[5] / "examples"


def still() -> float:
    return 0.0


@parametrized("right")
def test_a_right_script_has_no_findings(script: Script, tmp_path: Path) -> None:
    assert script_findings(script.write(tmp_path), still) == []


@pytest.mark.heavy
def test_there_are_many_and_most_are_read(tmp_path: Path) -> None:
    found = scripts("right")
    programs = [read_program(script.write(tmp_path / str(number)), still) for number, script in enumerate(found)]
    unread = [script.name for script, program in zip(found, programs, strict=True) if program is None]
    assert len(found) >= 60
    assert set(unread) == {"Python 2", "a command that is not plain", "srun in the command", "two commands"}


@pytest.mark.parametrize(
    ("script", "distribution"),
    [
        ("accelerate-digits/src/train.py", "pytorch"),
        ("azure-cifar/src/train.py", "pytorch"),
        ("azure-tensorflow/src/main.py", "tensorflow"),
        ("deepspeed-zero2/src/train.py", "deepspeed"),
        ("digits/src/train.py", "pytorch"),
        ("fsdp2-digits/src/train.py", "pytorch"),
        ("hello/src/hello.py", "none"),
        ("horovod-digits/src/train_tensorflow.py", "horovod"),
        ("horovod-digits/src/train_torch.py", "horovod"),
        ("jax-psum/src/psum.py", "jax"),
        ("mnist/src/train.py", "pytorch"),
        ("mpi-allreduce/src/allreduce.py", "mpi"),
        ("mpi-torch/src/train.py", "mpi"),
        ("tensorflow-multiworker/src/train.py", "tensorflow"),
        ("tensorflow-ps/src/train.py", "tensorflow"),
        ("toy-ddp/src/run_ddp.py", "pytorch"),
    ],
)
def test_the_examples_are_right(script: str, distribution: str) -> None:
    path = EXAMPLES / script
    request = ScriptRequest(str(path.parent), ["python", path.name], 2, 2, 4, 2, 16, distribution=distribution)
    program = read_program(request, still)
    assert program is not None
    assert findings_of(program) == []
