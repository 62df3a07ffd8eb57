"""Source text of the programs that measure with torch. They run in the job's own Python, which has torch.

Their arguments are `rank world local seconds backend address size`. A rank waits in the store until all ranks have
arrived. Only then does the time limit of the common work begin, because loading the environment may take long on one
node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

_START = """
import datetime, json, os, sys, threading, time

rank, world, local, seconds = map(int, sys.argv[1:5])
backend, address, size = sys.argv[5], sys.argv[6], int(sys.argv[7])
port_line, told = [], threading.Event()


def say(**found):
    sys.stdout.write("\\nworldsize-check " + json.dumps(found) + "\\n")
    sys.stdout.flush()


def listen():
    port_line.append(os.read(0, 64))
    told.set()
    while os.read(0, 64):
        pass
    os._exit(1)


threading.Thread(target=listen, daemon=True).start()
say(stage="started")
gathered_at = time.monotonic()
try:
    import torch
    import torch.distributed as dist
    say(stage="imported", version=torch.__version__)
    device = torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(local)
        device = torch.device("cuda", local)
        say(model=torch.cuda.get_device_name(device))
except Exception as error:
    say(error="%s: %s" % (type(error).__name__, str(error)[:300]))
    os._exit(0)


def join():
    global gathered_at
    limit = datetime.timedelta(seconds=seconds)
    if rank == 0:
        store = dist.TCPStore(address, 0, is_master=True, timeout=limit, wait_for_workers=False)
        say(port=store.port)
    else:
        told.wait()
        say(port=int(port_line[0]))
        store = dist.TCPStore(address, int(port_line[0]), is_master=False, timeout=limit, wait_for_workers=False)
    say(stage="connected")
    store.add("arrived", 1)
    while store.add("arrived", 0) < world:
        time.sleep(0.05 + world / 1000)
    say(stage="gathered")
    gathered_at = time.monotonic()
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    say(stage="joined", joining=time.monotonic() - gathered_at)


def finish():
    if device.type == "cuda":
        torch.cuda.synchronize(device)
"""

_END = """

try:
    main()
except BaseException as error:
    say(error="%s: %s" % (type(error).__name__, str(error)[:600]), lasted=time.monotonic() - gathered_at)
sys.stdout.flush()
os._exit(0)
"""

ALL_REDUCES = 9
"""The number of all-reduces that ALL_REDUCE executes. The first one sets up connections. Without three all-reduces
before the measurement, nccl-tests measured a seventh of the speed. The last one shows whether the result is still
right."""

# The sum of all ranks is exact in float32 up to 5,700 ranks.
ALL_REDUCE = f"""{_START}

def main():
    join()
    numbers = torch.empty(size // 4, dtype=torch.float32, device=device)

    def is_right():
        numbers.fill_(rank + 1)
        dist.all_reduce(numbers)
        return bool((numbers == world * (world + 1) / 2).all())

    right = [is_right() for _ in range(3)]
    finish()
    began = time.monotonic()
    for _ in range({ALL_REDUCES - 4}):
        dist.all_reduce(numbers)
    finish()
    seconds = (time.monotonic() - began) / {ALL_REDUCES - 4}
    right.append(is_right())
    say(stage="done", seconds=seconds, correct=all(right))
    dist.barrier()
{_END}"""
"""A program that executes all-reduces of `size` bytes. It reports `seconds`, the time of one, and `correct`, whether
all results were right."""

COLLECTIVE = f"""{_START}

def main():
    join()
    began = time.monotonic()
    added = torch.full((size,), rank + 1, dtype=torch.int64, device=device)
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
        say(wrong="the data of rank %d arrived changed" % strange[0])
    say(stage="done", seconds=time.monotonic() - began)
    dist.barrier()
{_END}"""
"""A program that executes an all-reduce of `size` numbers and an all-gather, whose results are known. It reports
`seconds`, and `wrong`, a text that describes a wrong result."""

PAIR = f"""{_START}

def matmul():
    kind = torch.bfloat16
    if device.type == "cuda" and torch.cuda.get_device_capability(device)[0] < 8:
        kind = torch.float16
    a = torch.randn(size, size, device=device).to(kind)
    b = torch.randn(size, size, device=device).to(kind)

    def run(count):
        began = time.monotonic()
        for _ in range(count):
            torch.mm(a, b)
        finish()
        return (time.monotonic() - began) / count

    run(3)
    each = run(max(1, min(2000, int(1.0 / max(run(3), 1e-6)))))
    say(flops=2.0 * size ** 3 / each)


def gather():
    mine = torch.ones(size * size, dtype=torch.float32, device=device)
    parts = [torch.empty_like(mine) for _ in range(world)]

    def run(count):
        began = time.monotonic()
        for _ in range(count):
            dist.all_gather(parts, mine)
        finish()
        return (time.monotonic() - began) / count

    run(3)
    say(gathering=mine.numel() * 4 * (world - 1) / run(5))


def main():
    matmul()
    join()
    gather()
    say(stage="done")
    dist.barrier()
{_END}"""
"""A program that multiplies matrices of `size` rows on one GPU and reports `flops` per second. It then executes an
all-gather of 4 `size`² bytes of each rank and reports `gathering`, the bytes per second that a rank receives."""
