"""Answers of NCCL's RAS in the form in which 2.28 and later write them, of communicators that are told in short."""

from __future__ import annotations

import json

from worldsize.wings.hangs.judgement.ras.ras_verdict import RankProcess

HOST, OTHER = "10.0.0.1", "10.0.0.2"
KINDS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def processes(count):
    """Those of as many ranks, two on each node, as an agent knows them."""
    return [
        RankProcess(rank, 1000 + rank, (HOST if rank < 2 else OTHER, "node%d" % (rank // 2))) for rank in range(count)
    ]


def of_rank(rank, **counts):
    place = {"rank": rank, "host": HOST if rank < 2 else OTHER, "pid": 1000 + rank, "cuda_dev": rank, "nvml_dev": rank}
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    return {**place, "status": status, "collective_counts": {kind: counts.get(kind, 0) for kind in KINDS}}


def missing(rank, unresponsive=True, dead=False):
    place = {"rank": rank, "host": HOST if rank < 2 else OTHER, "pid": 1000 + rank, "cuda_dev": 0, "nvml_dev": rank}
    return {**place, "status": {"unresponsive": unresponsive, "considered_dead": dead}}


def communicator(*ranks, lost=()):
    return {
        "hash": "0x27a079b828ff1a75",
        "secondary_hash": "0x1:0x2",
        "size": len(ranks) + len(lost),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(lost),
        "ranks": list(ranks),
        "missing_ranks": list(lost),
    }


def as_json(*communicators):
    value = {
        "nccl_version": "2.28.9",
        "cuda_runtime_version": 12080,
        "cuda_driver_version": 12080,
        "timestamp": "2026-06-01 10:00:00",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
    }
    return json.dumps(value, indent=2) + "\n"


HEAD = """NCCL version 2.27.5 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          2            1          8        8

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         2         8         8   RUNNING  %s

Errors
======

%sWarnings
========

%s"""

ONE_BEHIND = """#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 64
  Rank 3 has launched up to operation 60 -- GPU 1 managed by process 1003 on node 10.0.0.2

"""

TWO_BEHIND = """#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  6 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 1000 on node 10.0.0.1
  Rank 2 -- GPU 0 managed by process 1002 on node 10.0.0.2

"""

INCOMPLETE = """INCOMPLETE
  Missing communicator data from 1 job process
  Process 1003 on node 10.0.0.2 managing GPU 1

#0-0 (78db921d1c117b4a) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 1 managed by process 1003 on node 10.0.0.2

"""

DEAD = """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 1003 on node 10.0.0.2 managing GPU 1

"""


def as_text(warnings="", errors=""):
    return HEAD % ("MISMATCH" if warnings else "INCOMPLETE" if errors else "OK", errors, warnings)
