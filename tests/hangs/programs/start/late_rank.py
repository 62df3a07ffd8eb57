"""One rank has not come to the meeting of all: before it, it waits for a licence from a named pipe."""

import os

from model import start
from ranks import about_to_hang, begin, is_culprit

begin()
if is_culprit():
    os.mkfifo("licence")
    about_to_hang()
    with open("licence") as file:  # here
        file.read()
start()  # others
