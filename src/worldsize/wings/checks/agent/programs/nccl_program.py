"""What each rank of the measurement executes, with the job's Python.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

WARM_UPS = 3
"""The first collective sets connections up: without warm-ups nccl-tests measured a seventh of the speed."""
MEASURED = 5
TIMES = WARM_UPS + MEASURED + 1
"""All-reduces of a run: the last one is there to see whether the result is still right."""

MARK = "worldsize-bandwidth "
"""What begins the line of the result, since a user's modules may print, too."""

# The end of standard input is the end of the node's program. Sums of ranks are exact in float32 up to 5,700 ranks.
PROGRAM = f"""
import datetime, json, os, sys, threading, time
def watch():
    os.read(0, 1)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
import torch
import torch.distributed as dist
size, limit = int(sys.argv[1]), float(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=limit))
numbers = torch.empty(size // 4, dtype=torch.float32, device="cuda")
def is_right():
    numbers.fill_(rank + 1)
    dist.all_reduce(numbers)
    return bool((numbers == world * (world + 1) / 2).all())
right = all([is_right() for _ in range({WARM_UPS})])
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range({MEASURED}):
    dist.all_reduce(numbers)
torch.cuda.synchronize()
seconds = (time.perf_counter() - start) / {MEASURED}
right = is_right() and right
print()
print({MARK!r} + json.dumps({{"seconds": seconds, "correct": right}}), flush=True)
dist.destroy_process_group()
"""
