"""Two nodes have each taken their own first rank for the head: two meetings, each with half of the ranks."""

import os

from model import start
from ranks import LAST, RANK, WORLD, about_to_hang, begin

begin()
half = WORLD // 2
if half <= RANK <= LAST:
    os.environ["RANK"] = str(RANK - half)
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
about_to_hang()
start()  # here
