"""The program of each rank of the collective's check: text for the job's own Python, which has torch.

A rank waits in the store until all are there: only then does the time of the collective begin, since environments may
load for long on one node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

COLLECTIVE = """
import datetime, json, os, sys, threading, time

rank, world, local, seconds = map(int, sys.argv[1:5])
backend, address = sys.argv[5:7]


def say(**found):
    sys.stdout.write("\\nworldsize-check " + json.dumps(found) + "\\n")
    sys.stdout.flush()


first, told = [], threading.Event()


def listen():
    first.append(os.read(0, 64))
    told.set()
    while os.read(0, 64):
        pass
    os._exit(1)


threading.Thread(target=listen, daemon=True).start()
say(stage="started")
try:
    import torch
    import torch.distributed as dist
except Exception as error:
    say(error="%s: %s" % (type(error).__name__, str(error)[:300]))
    sys.exit(0)
say(stage="imported", version=torch.__version__)
gathered_at = time.monotonic()
limit = datetime.timedelta(seconds=seconds)
try:
    if rank == 0:
        store = dist.TCPStore(address, 0, is_master=True, timeout=limit, wait_for_workers=False)
        say(port=store.port)
    else:
        told.wait()
        port = int(first[0])
        say(port=port)
        store = dist.TCPStore(address, port, is_master=False, timeout=limit, wait_for_workers=False)
    say(stage="connected")
    store.add("arrived", 1)
    while store.add("arrived", 0) < world:
        time.sleep(0.05 + world / 1000)
    say(stage="gathered")
    gathered_at = time.monotonic()
    device = torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(local)
        device = torch.device("cuda", local)
    began = time.monotonic()
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    say(stage="joined", joining=time.monotonic() - began)
    began = time.monotonic()
    added = torch.full((1 << 17,), rank + 1, dtype=torch.int64, device=device)
    dist.all_reduce(added)
    mine = torch.full((1024,), 3 * rank + 1, dtype=torch.int64, device=device)
    gathered = [torch.zeros_like(mine) for _ in range(world)]
    dist.all_gather(gathered, mine)
    expected = world * (world + 1) // 2
    lowest, highest = int(added.min()), int(added.max())
    strange = [at for at, each in enumerate(gathered) if not bool((each == 3 * at + 1).all())]
    if (lowest, highest) != (expected, expected):
        say(wrong="the sum of all ranks is %d to %d instead of %d" % (lowest, highest, expected))
    elif strange:
        say(wrong="what rank %d gave did not arrive as it was" % strange[0])
    say(stage="done", seconds=time.monotonic() - began)
    dist.barrier()
except BaseException as error:
    say(error="%s: %s" % (type(error).__name__, str(error)[:600]), lasted=time.monotonic() - gathered_at)
sys.stdout.flush()
os._exit(0)
"""
