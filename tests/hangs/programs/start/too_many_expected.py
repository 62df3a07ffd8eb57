"""Every rank believes in one rank more than there are."""

import os

from model import start
from ranks import WORLD, about_to_hang, begin

begin()
os.environ["WORLD_SIZE"] = str(WORLD + 1)
about_to_hang()
start()  # here
