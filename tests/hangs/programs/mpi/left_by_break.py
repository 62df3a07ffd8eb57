"""One rank leaves the loop early and is in Finalize, where it waits for the others, who are in an Allreduce."""

import numpy as np
from mpi4py import MPI
from ranks import STEPS, about_to_hang, begin, hangs, is_culprit, say

begin()
world = MPI.COMM_WORLD
for step in range(STEPS):
    if hangs(step):
        break
    world.Allreduce(MPI.IN_PLACE, np.ones(1000))  # others
    say("step %d" % step)
if is_culprit():
    about_to_hang()
MPI.Finalize()  # here
