"""One rank finds nothing to do and ends with 0 before the meeting of all."""

import sys

from model import start
from ranks import about_to_hang, begin, is_culprit

begin()
if is_culprit():
    about_to_hang()
    sys.exit(0)
start()  # others
