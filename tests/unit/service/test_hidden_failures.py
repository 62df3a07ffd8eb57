"""Which failures a command's shell would hide."""

from __future__ import annotations

import pytest

from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins
from worldsize.service.submission.hidden_failures import hidden_failures


def told(command: str) -> list[str]:
    return [found.hint or "" for found in hidden_failures(Job(command=command), KeyOrigins())]


@pytest.mark.parametrize(
    "command",
    [
        "python train.py | tee log",
        "python3.11 -u train.py --lr 1 2>&1 | tee log-$(date +%s).txt",
        "cd src && LR=1 torchrun train.py |& cat",
        "echo start\npython train.py |\n  cat",
        "(python train.py|cat)",
        "./train.sh | grep -v x",
    ],
)
def test_a_pipe(command: str) -> None:
    assert told(command) == ["begin it with set -o pipefail;"]
    assert told("set -o pipefail; " + command) == []


@pytest.mark.parametrize("command", ["python train.py &", "python train.py & sleep 1", "(python train.py &)"])
def test_the_background(command: str) -> None:
    assert told(command) == ["end it with wait"]
    assert told(command + "\nwait") == []


@pytest.mark.parametrize(
    "command",
    [
        "python train.py",
        "python train.py || true",
        "python train.py && echo",
        "python train.py >log 2>&1",
        "python train.py &>log",
        "echo 'python train.py | cat'",
        'python -c "a | b & c"',
        "nvidia-smi | head -n 1; python train.py",
        "ls | python count.py",
        "python count.py '|' x",
        "python train.py | tee log; exit ${PIPESTATUS[0]}",
        "python --version | head -n 1; python train.py",
        "python server.py & python train.py; kill %1",
        "cat >x.sh <<'END'\npython train.py | cat\nEND\nbash x.sh",
        "python count.py it's | cat",
        "N=$(python count.py | tail -n 1) python train.py",
        "python train.py  # | cat",
        "python -c 'first\nsecond | third'",
        "",
    ],
)
def test_nothing(command: str) -> None:
    assert told(command) == []
