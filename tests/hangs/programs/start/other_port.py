"""One rank looks for the meeting of all at a port where nobody listens."""

import os

from model import start
from ranks import about_to_hang, begin, is_culprit

begin()
if is_culprit():
    os.environ["MASTER_PORT"] = "9"
    about_to_hang()
start()  # here
