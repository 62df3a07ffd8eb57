"""A program that a node's own Python executes to report what the node has. It prints one line of JSON.

    python -c SOURCE DIRECTORY ROUNDS PATIENCE

DIRECTORY is shared with the machine that requests the check. Each file `ping-NODE-R` in it is answered by `pong-NODE-R`
with the same content.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Dict, List

_POLL = 0.02
_TORCH = (
    "import json, torch; "
    "print(json.dumps({'version': torch.__version__, 'cuda': torch.version.cuda, 'gpus': torch.cuda.device_count()}))"
)
_GPUS = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]


def answer_pings(directory: str, rounds: int, patience: float) -> int:
    """Answer each file `ping-NODE-R` in the shared `directory` with a file `pong-NODE-R` of the same content, and
    return how many of the `rounds` were seen within `patience` seconds. The pings are found by listing the directory: a
    name that is looked up too early may stay missing."""
    deadline = time.monotonic() + patience
    for number in range(rounds):
        name = f"{os.environ['WORLDSIZE_NODE_RANK']}-{number}"
        while "ping-" + name not in os.listdir(directory):
            if time.monotonic() > deadline:
                return number
            time.sleep(_POLL)
        with open(os.path.join(directory, "ping-" + name)) as file:
            words = file.read()
        part = os.path.join(directory, "part-" + name)
        with open(part, "w") as file:
            file.write(words)
        os.rename(part, os.path.join(directory, "pong-" + name))
    return rounds


def gpu_reports() -> List[Dict[str, str]]:
    """Return {name, memory (MiB), driver} for each of NVIDIA's GPUs; an empty list if nvidia-smi fails."""
    rows = [[word.strip() for word in line.split(",")] for line in _output(_GPUS, 30.0).splitlines()]
    return [dict(zip(("name", "memory", "driver"), row)) for row in rows if len(row) == 3]


def gpu_instances() -> int:
    """Return the number of MIG instances that NVIDIA's GPUs of this node are divided into; 0 if they are not
    divided."""
    return sum(line.strip().startswith("MIG ") for line in _output(["nvidia-smi", "-L"], 30.0).splitlines())


def torch_report() -> Dict[str, Any]:
    """Return {version, cuda, gpus} of the PyTorch that this node's Python imports: its version, its CUDA version and
    the number of GPUs. {} if this Python cannot import torch."""
    lines = _output([sys.executable, "-c", _TORCH], 120.0).splitlines()
    try:
        return dict(json.loads(lines[-1]))
    except (ValueError, IndexError):
        return {}


def _output(argv: Sequence[str], timeout: float) -> str:
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def main(words: Sequence[str]) -> None:
    rounds = answer_pings(words[0], int(words[1]), float(words[2]))
    python = {"version": platform.python_version(), "path": sys.executable}
    gpus = gpu_reports()
    instances = gpu_instances() if gpus else 0
    found = {"rounds": rounds, "python": python, "gpus": gpus, "instances": instances, "torch": torch_report()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
