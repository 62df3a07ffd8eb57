"""One rank is slow; the others wait at MPI's barrier, where they use a core each."""

import time

from mpi4py import MPI
from pace import DURATION, SLOW_AT, STEPS, until_over
from ranks import begin, is_slow, say, words

begin()
for step in range(STEPS):
    if step == SLOW_AT and is_slow():
        if words.phase == "sleeping":
            time.sleep(DURATION)
        else:
            for number in until_over():
                sum(range(number, number + 10_000))
    MPI.COMM_WORLD.Barrier()
    say("step %d" % step)
