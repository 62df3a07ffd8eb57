"""NCCL's Flight Recorder: by the hook in the ranks, and by a pipe of NCCL's own. Both are played."""

import contextlib
import os
import pickle
import threading
import time

import pytest

from worldsize.wings.hangs.agent import recorder_dumps
from worldsize.wings.hangs.agent.recorder_dumps import ask_recorders, read_answer
from worldsize.wings.hangs.inrank import recorder

NO_CALLS = {"version": "2.10", "entries": []}
CALLS = {
    "version": "2.10",
    "entries": [
        {
            "record_id": number,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": number + 1,
            "profiling_name": "nccl:all_reduce",
            "state": state,
        }
        for number, state in enumerate(("completed", "started"))
    ],
}


class Listener:
    """torch's monitor, which looks at its pipe, and writes its dump in place, in pieces."""

    def __init__(self, folder, rank, file, pieces=3):
        path = str(folder / ("pipe_%d.pipe" % rank))
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._file = file
        self._pieces = pieces
        self._data = pickle.dumps(CALLS, 2)
        self._over = threading.Event()
        self.wrote = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while not self._over.wait(0.02):
            if os.read(self._pipe, 128):
                self._write()

    def _write(self):
        size = len(self._data) // 3 + 1
        with open(self._file, "wb", buffering=0) as file:
            for piece in range(self._pieces):
                file.write(self._data[piece * size : (piece + 1) * size])
                self._over.wait(0.1)
        self.wrote.set()

    def close(self):
        self._over.set()
        self._thread.join()
        os.close(self._pipe)


@pytest.fixture
def listen(tmp_path, monkeypatch):
    variables = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "pipe_")}
    monkeypatch.setattr(recorder_dumps, "variable", lambda pid, name: variables.get(name, ""))
    with contextlib.ExitStack() as stack:

        def begin(rank, file, **fields):
            listener = Listener(tmp_path, rank, file, **fields)
            stack.callback(listener.close)
            return listener

        begin.variables = variables
        yield begin


def ask(tmp_path, rank=3, seconds=10.0):
    answer = ask_recorders({rank: os.getpid()}, str(tmp_path), seconds)[rank]
    return answer, read_answer(rank, answer)


def test_a_dump_by_the_pipe_of_nccl_is_read_once_it_is_whole(listen, tmp_path):
    listen(3, tmp_path / "nccl-rank-3")
    answer, dump = ask(tmp_path)
    assert (answer.path, answer.problem, dump.fault) == (str(tmp_path / "nccl-rank-3"), "", "")
    assert [(entry.backend, entry.state) for entry in dump.entries] == [("nccl", "completed"), ("nccl", "started")]


def test_an_older_dump_is_no_answer(listen, tmp_path):
    (tmp_path / "trace_3").write_bytes(pickle.dumps(NO_CALLS, 2))
    listen.variables["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = str(tmp_path / "trace_")
    listen(3, tmp_path / "trace_3")
    _, dump = ask(tmp_path)
    assert len(dump.entries) == 2


def test_a_dump_that_stays_half_is_none(listen, tmp_path):
    listener = listen(3, tmp_path / "nccl-rank-3", pieces=2)
    start = time.monotonic()
    answer, dump = ask(tmp_path, seconds=1.0)
    assert listener.wrote.is_set() and time.monotonic() - start < 5
    assert (answer.path, answer.problem) == ("", "the rank did not answer: Python's lock may be held")
    assert dump.fault == "is missing (the rank did not answer: Python's lock may be held)"


def test_the_pipe_of_another_rank_is_not_written_to(listen, tmp_path):
    listener = listen(13, tmp_path / "nccl-rank-13")
    assert ask(tmp_path)[0].problem == "the rank has no recorder that responds"
    listen.variables.clear()
    assert ask(tmp_path, 13)[0].problem == "the rank has no recorder that responds"
    assert not listener.wrote.is_set()


class Torch:
    """What torch's module of collectives offers of recorders."""

    def __init__(self, **dumps):
        self.__dict__.update(dumps)


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """What the hook writes with a torch that has these."""

    def write(**dumps):
        monkeypatch.setitem(recorder.sys.modules, "torch._C._distributed_c10d", Torch(**dumps))
        recorder._write(str(tmp_path / "rank-00001"))
        return {each.name: each.read_bytes() for each in tmp_path.iterdir()}

    return write


def refuse(**_):
    raise RuntimeError("no device")


def old(**words):
    if words:
        raise TypeError("unexpected keyword argument")
    return b"old"


def test_the_hook_writes_the_dumps_of_both_recorders(answers):
    found = answers(
        _dump_fr_trace=lambda includeStackTraces: b"gloo", _dump_nccl_trace=lambda includeStackTraces: b"nccl"
    )
    assert found == {"rank-00001.dump": b"gloo", "rank-00001.nccl.dump": b"nccl"}


def test_an_older_torch_has_one_recorder(answers):
    assert answers(_dump_nccl_trace=old) == {"rank-00001.dump": b"old"}


def test_a_recorder_that_fails_does_not_hide_the_other(answers):
    assert answers(_dump_fr_trace=lambda includeStackTraces: b"gloo", _dump_nccl_trace=refuse) == {
        "rank-00001.dump": b"gloo"
    }


NEW = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": "/r/stacks/nccl-rank-"}
OLD = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/r/stacks/nccl-rank-"}
BOTH = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_INCLUDE_STACK_TRACE": "0"}


@pytest.mark.parametrize(
    ("before", "new", "old"),
    [
        ({}, {**NEW, **BOTH}, {**OLD, **BOTH}),
        (
            {"TORCH_NCCL_TRACE_BUFFER_SIZE": "9", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"},
            {"TORCH_FR_DUMP_TEMP_FILE": "/r/stacks/nccl-rank-", "TORCH_INCLUDE_STACK_TRACE": "0"},
            {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/r/stacks/nccl-rank-", "TORCH_INCLUDE_STACK_TRACE": "0"},
        ),
        ({"TORCH_FR_DUMP_TEMP_FILE": "/mine_", "TORCH_FR_BUFFER_SIZE": "9"}, BOTH, BOTH),
        ({"TORCH_FR_DUMP_TEMP_FILE": "/outer/nccl-rank-"}, {**NEW, **BOTH}, {**OLD, **BOTH}),
    ],
    ids=["nothing", "old names", "new names", "of an outer run"],
)
def test_what_the_user_has_not_set_is_set_by_the_names_that_torch_knows(before, new, old, monkeypatch):
    for torch, wanted in ((Torch(_dump_fr_trace=None), new), (Torch(), old)):
        monkeypatch.setattr(recorder.os, "environ", dict(before))
        monkeypatch.setitem(recorder.sys.modules, "torch._C._distributed_c10d", torch)
        recorder.set_variables("/r/stacks/rank-00001")
        assert recorder.os.environ == {**before, **wanted}
