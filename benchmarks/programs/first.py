"""A rank: says its first line, and when that was. python first.py NOTES"""

import sys
import time

print("here", flush=True)
with open(sys.argv[1], "wb", buffering=0) as notes:
    notes.write(b"rank %.6f\n" % time.time())
