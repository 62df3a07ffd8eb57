"""A rank that lives on until it is ended, but for rank 1: that one fails after a second. python failing.py NOTES

NOTES is held open as long as the rank lives.
"""

import os
import sys
import time


def main(path: str, rank: int) -> None:
    notes = os.open(path, os.O_WRONLY)
    os.write(notes, b"rank %.6f\n" % time.time())
    if rank == 1:
        time.sleep(1)
        os.write(notes, b"failing %.6f\n" % time.time())
        sys.exit(3)
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], int(os.environ.get("RANK") or os.environ["SLURM_PROCID"]))
