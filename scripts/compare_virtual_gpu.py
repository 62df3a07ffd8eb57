"""Compare what virtual GPUs answer with real ones: `python scripts/compare_virtual_gpu.py`, on a machine with a GPU.

The cases and what is expected of both stand in tests/rehearsal/answers.py. Prints each case in which this machine's
torch answers otherwise; the exit code is 1 if there are any, 2 where there is no GPU to compare with. On a machine with
one GPU, the cases that name a second one are counted and not compared.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "rehearsal"))

import answers


def needs_second_gpu(found: object, expected: object) -> bool:
    """Whether a machine with one GPU answers a case otherwise because the case names another GPU."""
    missing = ("invalid device ordinal", "Invalid device id", "torch.cuda.device_count() is 1")
    return found != expected and isinstance(found, str) and any(words in found for words in missing)


def main() -> int:
    import torch

    gpus = torch.cuda.device_count()
    if gpus == 0:
        print("this machine has no GPU")
        return 2
    found = answers.ask_all()
    expected = {name: case[1] for name, case in answers.CASES.items()}
    differing = [name for name in found if not answers.agrees(found[name], expected[name])]
    left = []
    if gpus == 1:
        left = [name for name in differing if name in answers.TWO_GPUS or needs_second_gpu(found[name], expected[name])]
    differing = [name for name in differing if name not in left]
    for name in differing:
        print("%s\n  virtual: %r\n  real:    %r" % (name, expected[name], found[name]))
    compared = len(found) - len(left)
    print("torch %s, CUDA %s, %s" % (torch.__version__, torch.version.cuda, torch.cuda.get_device_name(0)))
    print("%d of %d answers agree" % (compared - len(differing), compared))
    if left:
        print("%d need a second GPU: %s" % (len(left), ", ".join(left)))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
