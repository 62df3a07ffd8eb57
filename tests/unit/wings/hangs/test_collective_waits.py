"""What a thread waits for, by frames of real libraries and by lines of source."""

from __future__ import annotations

import time

import pytest
from recorded_stacks import RECORDINGS, recorded_rank, recorded_threads, thread_of

from worldsize.wings.hangs.judgement.stacks.collective_waits import (
    is_library,
    user_frame_of,
    wait_of,
    wait_of_process,
)
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks, parse_faulthandler

SITE = "/env/lib/python3.12/site-packages/"
LIB = "/usr/lib/python3.12/"
USER = ("Trainer.step", "/job/train.py", 41)


@pytest.mark.parametrize(
    ("recording", "kind", "call", "line"),
    [
        ("all_reduce", "collective", "all_reduce", 12),
        ("all_gather_object", "collective", "all_gather_object", 18),
        ("broadcast_object_list", "collective", "broadcast_object_list", 20),
        ("monitored_barrier", "collective", "monitored_barrier", 14),
        ("recv", "collective", "recv", 15),
        ("backward", "collective", "backward", 9),
        ("construction", "collective", "DistributedDataParallel", 31),
        ("init_process_group", "start", "init_process_group", 3),
        ("loader", "loader", "DataLoader", 8),
        ("sleep", None, "", 10),
        ("regular_expression", None, "", 4),
    ],
)
def test_real_ranks(recording: str, kind: str | None, call: str, line: int) -> None:
    wait = wait_of(recorded_rank(recording).main_thread)
    assert (wait.kind, wait.call) == (kind, call)
    assert wait.user_frame is not None and wait.user_frame.line == line


def test_autograd_waits_only_where_it_does_not_compute() -> None:
    (dump,) = parse_faulthandler((RECORDINGS / "backward.txt").read_text())
    assert wait_of(dump[0])[:2] == ("backward", "may"), "faulthandler does not tell"
    told = RankStacks(0, 1, 0.0, "faulthandler", dump, "S")
    assert wait_of_process(told)[:2] == ("backward", "collective"), "the kernel tells"
    assert wait_of_process(told._replace(state="R")).kind is None
    (thread,) = recorded_threads("backward")
    assert wait_of(thread._replace(active=True, holds_gil=True)).kind is None
    assert wait_of(thread._replace(active=True, holds_gil=None)).kind is None
    assert wait_of(thread._replace(active=True, holds_gil=False))[:2] == ("backward", "device")


@pytest.mark.parametrize(
    ("kind", "call", "frames"),
    [
        ("collective", "barrier", [("barrier", SITE + "torch/distributed/distributed_c10d.py", 1)]),
        ("collective", "_tree_reduce", [("_tree_reduce", SITE + "torch/distributed/distributed_c10d.py", 1)]),
        ("collective", "wait_tensor", [("wait_tensor", SITE + "torch/distributed/_functional_collectives.py", 1)]),
        ("collective", "new_group", [
            ("_store_based_barrier", SITE + "torch/distributed/distributed_c10d.py", 1),
            ("new_group", SITE + "torch/distributed/distributed_c10d.py", 2)]),
        ("start", "init_process_group", [
            ("_store_based_barrier", SITE + "torch/distributed/distributed_c10d.py", 1),
            ("init_process_group", SITE + "torch/distributed/distributed_c10d.py", 2)]),
        ("collective", "all_reduce", [("all_reduce", SITE + "deepspeed/comm/comm.py", 1)]),
        ("collective", "synchronize", [("synchronize", SITE + "horovod/torch/mpi_ops.py", 1)]),
        ("collective", "broadcast_parameters", [
            ("synchronize", SITE + "horovod/torch/mpi_ops.py", 1),
            ("broadcast_parameters", SITE + "horovod/torch/functions.py", 1)]),
        ("collective", "wait_for_everyone", [
            ("barrier", SITE + "torch/distributed/distributed_c10d.py", 1),
            ("PartialState.wait_for_everyone", SITE + "accelerate/state.py", 1),
            ("Accelerator.wait_for_everyone", SITE + "accelerate/accelerator.py", 1)]),
        ("collective", "sync_global_devices", [
            ("_value", SITE + "jax/_src/array.py", 1),
            ("sync_global_devices", SITE + "jax/experimental/multihost_utils.py", 1)]),
        ("start", "jax.distributed.initialize", [("State.initialize", SITE + "jax/_src/distributed.py", 1)]),
        ("start", "rendezvous", [
            ("DynamicRendezvousHandler.next_rendezvous", SITE + "torch/distributed/elastic/rendezvous/dynamic.py", 1)]),
        ("device", "torch.cuda.synchronize", [("synchronize", SITE + "torch/cuda/__init__.py", 1)]),
        ("lock", "Thread.join", [("Thread.join", LIB + "threading.py", 2)]),
        ("lock", "Condition.wait", [("Condition.wait", LIB + "threading.py", 1), ("Queue.get", LIB + "queue.py", 2)]),
        ("child", "run", [
            ("_PollLikeSelector.select", LIB + "selectors.py", 1),
            ("Popen._communicate", LIB + "subprocess.py", 2), ("run", LIB + "subprocess.py", 3)]),
        ("child", "Process.join", [("Popen.poll", LIB + "multiprocessing/popen_fork.py", 1)]),
        ("io", "a socket", [("SocketIO.readinto", LIB + "socket.py", 1)]),
        ("io", "_save", [
            ("_save", SITE + "torch/serialization.py", 1), ("save", SITE + "torch/serialization.py", 2)]),
        ("collective", "PMPI_Barrier", [("PMPI_Barrier", "libmpi.so.40", 0)]),
        (None, "", [("forward", SITE + "torch/nn/modules/linear.py", 1)]),
    ],
)  # fmt: skip
def test_frames_of_libraries(kind: str | None, call: str, frames: list[tuple[str, str, int]]) -> None:
    wait = wait_of(thread_of(*frames, USER, ("main", "/job/train.py", 90)))
    assert (wait.kind, wait.call) == (kind, call)
    assert wait.user_frame == Frame(*USER)


@pytest.mark.parametrize(
    ("kind", "call", "line"),
    [
        ("sleep", "sleep", "time.sleep(1000)"),
        ("collective", "Barrier", "MPI.COMM_WORLD.Barrier()"),
        ("collective", "allreduce", "total = comm.allreduce(value, op=MPI.SUM)"),
        ("collective", "recv", "data = comm.recv(source=0)"),
        ("collective", "recv", "data = world.recv(source=0)"),
        ("collective", "Finalize", "MPI.Finalize()"),
        ("collective", "all_reduce", "dist.all_reduce(loss, async_op=True).wait()"),
        ("collective", "wait", "work.wait()"),
        ("collective", "wait", "for request in requests: request.wait()"),
        ("start", "MPI", "from mpi4py import MPI"),
        ("start", "get", 'value = store.get("key")'),
        ("device", "item", "total += loss.item()"),
        ("lock", "acquire", "guard.acquire()"),
        ("lock", "lock", "with self.lock:"),
        ("child", "waitpid", "os.waitpid(pid, 0)"),
        ("io", "open", 'with open("/data/train.bin", "rb") as file:'),
        ("io", "input", "input()"),
        (None, "", "x = y @ z  # dist.barrier()"),
        (None, "", ""),
    ],
)
def test_calls_of_c_show_in_the_line_that_makes_them(kind: str | None, call: str, line: str) -> None:
    frame = (*USER, line)
    assert wait_of(thread_of(frame))[:2] == (call, kind)
    assert wait_of(thread_of(frame, active=None)).kind == kind
    computes = thread_of(frame, active=True)
    assert wait_of(computes._replace(holds_gil=True)).kind is None, "it computes"
    assert wait_of(computes).kind == (kind if kind == "device" else None), "it may ask a device again and again"


def test_who_computes_and_holds_pythons_lock_waits_for_no_other() -> None:
    thread = thread_of(("Condition.wait", LIB + "threading.py", 1), USER)
    assert wait_of(thread).kind == "lock"
    assert wait_of(thread._replace(active=True, holds_gil=True)).kind is None


def test_the_users_own_code() -> None:
    for file in (SITE + "a.py", "/usr/lib/python3/dist-packages/a.py", LIB + "json/decoder.py", "<frozen runpy>", ""):
        assert is_library(file), file
    for file in ("/run/inrank/worldsize_inrank/hangs/__init__.py", "/env/bin/torchrun", "libmpi.so.40"):
        assert is_library(file), file
    written = "r4/cr434gnzyl6jorlo2hchwg5mfmxjgrqgwyjghf76yeovgqfpqvd4.py"
    assert is_library("/tmp/torchinductor_user/" + written) and not is_library("/job/" + written[3:])
    for file in ("/job/train.py", "train.py", "<stdin>", "<string>", "/home/lib/train.py", "/job/bin/train.py"):
        assert not is_library(file), file
    assert user_frame_of(thread_of(("f", SITE + "a.py", 1)).frames) is None
    assert wait_of(None) == ("", None, None)
    assert wait_of(thread_of()) == ("", None, None)


def test_where_a_stack_says_nothing_the_kernel_may() -> None:
    stacks = RankStacks(0, 1, 0.0, "proc", (), "S", wait_channel="hrtimer_nanosleep")
    assert wait_of_process(stacks)[:2] == ("sleep", "sleep")
    assert wait_of_process(stacks._replace(wait_channel="do_wait")).kind == "child"
    assert wait_of_process(stacks._replace(state="D", wait_channel="")).kind == "io"
    assert wait_of_process(stacks._replace(wait_channel="futex_do_wait")).kind is None
    assert wait_of_process(recorded_rank("all_reduce", state="D")).kind == "collective"


def test_no_name_takes_long_to_look_at() -> None:
    names = ["all_reduce" + "_tensor" * 60 + "x", "_single_autograd" * 25, "init_" * 80, "a" * 400, "_" * 400]
    began = time.process_time()
    for name in names:
        wait_of(thread_of((name, SITE + "torch/distributed/" + "x/" * 150, 1, "x.a(" * 75), ("(" * 300, ")" * 300, 1)))
        wait_of(thread_of((name, "/job/train.py", 1, name[:300]), ("f", "a", 1)))
        wait_of(thread_of((name, "/job/train.py", 1, "comm(" * 60)))
    assert time.process_time() - began < 2.0
