"""The ranks take turns by a lock on a file; one keeps it while it waits for an answer of a process of its own."""

import fcntl
import subprocess
import time

from ranks import STEPS, about_to_hang, begin, hangs, say

begin()
for step in range(STEPS):
    with open("turn.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # others
        if hangs(step):
            calculator = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert calculator.stdout is not None
            about_to_hang()
            calculator.stdout.readline()  # here
    say("step %d" % step)
    time.sleep(0.1)
