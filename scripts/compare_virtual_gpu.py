"""Compare what virtual GPUs answer with real ones: `python scripts/compare_virtual_gpu.py`, on a machine with two GPUs.

The cases and what is expected of both stand in tests/rehearsal/answers.py. Prints each case in which this machine's
torch answers otherwise; the exit code is 1 if there are any, 2 where there are no GPUs to compare with.
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "rehearsal"))

import answers


def main() -> int:
    import torch

    if torch.cuda.device_count() < 2:
        print("this machine has %d GPUs, and two are needed" % torch.cuda.device_count())
        return 2
    found = answers.ask_all()
    differing = [name for name, (_, expected) in answers.CASES.items() if not answers.agrees(found[name], expected)]
    for name in differing:
        print("%s\n  virtual: %r\n  real:    %r" % (name, answers.CASES[name][1], found[name]))
    print("torch %s: %d of %d answers agree" % (torch.__version__, len(found) - len(differing), len(found)))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
