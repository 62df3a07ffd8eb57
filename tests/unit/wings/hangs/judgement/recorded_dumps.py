"""Dumps of the Flight Recorder in the form in which torch 2.13 writes them, of calls that are told in short."""

from __future__ import annotations

import pickle

from worldsize.wings.hangs.judgement.recorder.flight_recorder import read_dump

CREATED = 1_795_986_044.0
"""When the first call of a dump was made; each later one is a second later."""

FRAMES = (
    ("/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3245, "all_reduce"),
    ("/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", 83, "wrapper"),
    ("/home/u/train.py", 22, "<module>"),
)


def call(op="all_reduce", size=4, group=("0", "default_pg"), seq=None, ended=True, **fields):
    """A call; `seq`: its number, the next one of the group unless it is given."""
    return {"op": op, "size": size, "group": group, "seq": seq, "ended": ended, **fields}


def waiting(op="all_reduce", size=4, **fields):
    return call(op, size, ended=False, **fields)


def recorded(calls, backend="gloo", lost=0, config=None):
    """What the recorder of one rank holds; `lost`: how many older entries it has overwritten."""
    entries, numbers = [], {}
    for index, each in enumerate(calls):
        group = each["group"]
        seq = each["seq"] or numbers.get(group, 0) + 1
        numbers[group] = seq
        entries.append(_entry(each, lost + index, seq, backend))
    return {
        "version": "2.10",
        "entries": entries,
        "pg_config": config or {"": {"name": "", "desc": "", "ranks": "[]"}},
        "pg_status": {},
        "comm_lib_version": "",
    }


def _entry(each, record, seq, backend):
    of_nccl = "completed" if each["ended"] else "started"
    dtypes = [each.get("dtype", "Float")]
    return {
        "record_id": record,
        "pg_id": 0,
        "process_group": tuple(each["group"]),
        "collective_seq_id": seq,
        "p2p_seq_id": each.get("p2p_seq", 0),
        "op_id": seq,
        "profiling_name": "%s:%s" % (backend, each["op"]),
        "time_created_ns": int((CREATED + each.get("at", record)) * 1e9),
        "input_sizes": [[each["size"]]],
        "input_dtypes": dtypes,
        "output_sizes": [[each["size"]]],
        "output_dtypes": dtypes,
        "state": each.get("state", "scheduled" if backend == "gloo" else of_nccl),
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": each["ended"],
        "timeout_ms": 600000,
        "is_p2p": each.get("is_p2p", False),
        "thread_id": "139979149880192",
        "thread_name": "python",
        "frames": [{"filename": file, "line": line, "name": name} for file, line, name in FRAMES],
    }


def dump(rank, calls, taken=None, protocol=2, **fields):
    return read_dump(pickle.dumps(recorded(calls, **fields), protocol), rank, taken)


def dumps(*calls_of_ranks, **fields):
    return [dump(rank, calls, **fields) for rank, calls in enumerate(calls_of_ranks)]
