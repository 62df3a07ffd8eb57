"""One rank waits for an event of its own; the others are in an Allreduce."""

import threading

import numpy as np
from mpi4py import MPI
from ranks import STEPS, about_to_hang, begin, hangs, say

begin()
world = MPI.COMM_WORLD
for step in range(STEPS):
    if hangs(step):
        about_to_hang()
        threading.Event().wait()  # here
    world.Allreduce(MPI.IN_PLACE, np.ones(1000))  # others
    say("step %d" % step)
