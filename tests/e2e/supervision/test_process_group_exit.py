"""A script that destroys its process group, as it should, has no thread of gloo's left at its end."""

from __future__ import annotations

import pytest
from driver import Cli

pytest.importorskip("torch")
pytestmark = pytest.mark.training

SCRIPT = """
import atexit, os, sys, time
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    loss = model(torch.randn(8, 4)).sum()
    loss.backward()
    print("threads", threads() > 0)
    return model, loss

def threads():
    found = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/comm" % thread) as file:
                found += "gloo" in file.read()
        except OSError:
            pass
    return found

kept = main() if sys.argv[1] == "kept" else [main(), None][1]
dist.destroy_process_group()
atexit._run_exitfuncs()
deadline = time.monotonic() + 5
while threads() and time.monotonic() < deadline:
    time.sleep(0.01)
print("left", threads())
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["kept", "gone"])
def test_nothing_of_gloo_lives_on_into_the_end_of_the_interpreter(cli: Cli, model: str) -> None:
    """Where it does, a rank in some hundreds aborts there, with all its work done."""
    cli.write("train.py", SCRIPT)
    run = cli.run("-w", "1x2", "--", "python", "train.py", model)
    assert cli.ok("logs", run).lines == ["×2: threads True", "×2: left 0"]
