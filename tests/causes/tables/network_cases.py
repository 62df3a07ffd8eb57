"""Causes in names, addresses, ports and what is to be fetched over the network."""

from __future__ import annotations

from causes.case import Case
from causes.tables.communication_cases import LONG, SHORT

NETWORK_CASES = (
    Case(
        "address-in-use",
        """import os, socket, time

if os.environ["RANK"] == "0":
    first, second = socket.socket(), socket.socket()
    first.bind(("127.0.0.1", 0))
    first.listen()
    second.bind(first.getsockname())
time.sleep(60)
""",
        quick=True,
    ),
    Case(
        "address-in-use",
        """import os, socket, time

import torch.distributed as dist

other = socket.socket()
other.bind(("127.0.0.1", 0))
other.listen()
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(other.getsockname()[1])
if os.environ["RANK"] == "0":
    dist.init_process_group("gloo")
time.sleep(60)
""",
        needs=("torch",),
        variant="torch's store",
    ),
    Case(
        "download-failed",
        """import os, time, urllib.request

if os.environ["RANK"] == "1":
    urllib.request.urlopen("http://127.0.0.1:9/model.bin")
time.sleep(60)
""",
        ranks=(1,),
    ),
    Case(
        "name-not-resolved",
        """import os, socket, time

if os.environ["RANK"] == "1":
    socket.create_connection(("gpu[01-02]", 29500))
time.sleep(60)
""",
        ranks=(1,),
    ),
    Case(
        "name-not-resolved",
        """import datetime, os, time

import torch.distributed as dist

os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "gpu[01-02]", "29500"
if os.environ["RANK"] == "1":
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=2))
time.sleep(60)
""",
        "supported",
        ranks=(1,),
        needs=("torch",),
        variant="torch's store",
    ),
    Case(
        "host-unreachable",
        """import datetime, os, time

import torch.distributed as dist

if os.environ["RANK"] == "1":
    dist.TCPStore("192.0.2.1", 29500, 2, False, timeout=datetime.timedelta(seconds=2))
time.sleep(60)
""",
        ranks=(1,),
        needs=("torch",),
    ),
    Case(
        "host-unreachable",
        """import os, socket, time

if os.environ["RANK"] == "1":
    socket.create_connection(("255.255.255.255", 29500))
time.sleep(60)
""",
        ranks=(1,),
        variant="no route",
        quick=True,
    ),
    Case(
        "no-interface",
        """import torch.distributed as dist

dist.init_process_group("gloo")
""",
        ranks=(0, 1),
        needs=("torch",),
        keys={"environment_variables": {"GLOO_SOCKET_IFNAME": "nosuch"}},
    ),
    Case(
        "download-failed",
        """import os, time

import huggingface_hub

if os.environ["RANK"] == "1":
    huggingface_hub.hf_hub_download("org/model", "config.json")
time.sleep(60)
""",
        ranks=(1,),
        keys={"environment_variables": {"HF_HUB_OFFLINE": "1"}},
        variant="Hugging Face, offline",
    ),
    Case(
        "download-failed",
        """import os, time

import requests

if os.environ["RANK"] == "1":
    requests.get("https://weights.invalid/model.bin")
time.sleep(60)
""",
        ranks=(1,),
        variant="requests",
    ),
    Case(
        "download-failed",
        SHORT
        + """import traceback, urllib.request

try:
    if rank == 1:
        urllib.request.urlopen("http://127.0.0.1:9/model.bin")
except OSError:
    traceback.print_exc()
    time.sleep(60)
dist.all_reduce(torch.ones(4))
""",
        "supported",
        ranks=(1,),
        world="1x3",
        needs=("torch",),
        variant="it was caught, and the others wait",
    ),
    Case(
        "download-failed",
        LONG
        + """import traceback, urllib.request

try:
    if rank == 1:
        urllib.request.urlopen("http://127.0.0.1:9/model.bin")
except OSError:
    traceback.print_exc()
    dist.destroy_process_group()
    time.sleep(60)
dist.all_reduce(torch.ones(4))
""",
        "supported",
        ranks=(1,),
        world="2x1",
        needs=("torch",),
        variant="it was caught, and another one ended",
    ),
    Case(
        "host-unreachable",
        """import datetime, os, time

import torch.distributed as dist

if os.environ["RANK"] == "0":
    dist.TCPStore("127.0.0.1", 1, 2, False, timeout=datetime.timedelta(seconds=2))
time.sleep(60)
""",
        needs=("torch",),
        variant="no process listens",
    ),
)
