"""Every rank sends to its right neighbour, synchronously, before it receives from its left one."""

from mpi4py import MPI
from ranks import AT, RANK, STEPS, WORLD, about_to_hang, begin, say

begin()
world = MPI.COMM_WORLD
for step in range(STEPS):
    if step == AT:
        about_to_hang()
        world.ssend(step, dest=(RANK + 1) % WORLD)  # here
        world.recv(source=(RANK - 1) % WORLD)
    world.barrier()
    say("step %d" % step)
