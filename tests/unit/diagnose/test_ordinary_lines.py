"""Lines that programs write which are well, in the log of a rank that ends with a code of its own: none is a cause."""

from __future__ import annotations

import time

import pytest
from unit.diagnose.test_cause import OOM, cause, evidence, raised, stopped

from worldsize.diagnose.cause import find_cause
from worldsize.diagnose.cause_record import ESTABLISHED, SUPPORTED, UNKNOWN
from worldsize.diagnose.evidence import Line, RaisedException, RankEnd
from worldsize.diagnose.explanation import explain
from worldsize.diagnose.signatures import SIGNATURES
from worldsize.diagnose.signatures.signature import Role, match_text

ORDINARY = """
[W1129 10:00:00.000000000 socket.cpp:759] [c10d] The IPv6 network addresses of (n7, 29500) cannot be retrieved \
(gai error: -2 - Name or service not known).
[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
[W socket.cpp:697] [c10d] The client socket has failed to connect to [n7]:29500 (errno: 110 - Connection timed out).
/lib/torch/amp/autocast_mode.py:250: UserWarning: User provided device_type of 'cuda', but CUDA is not available. Disabl
CUDA is not available, using CPU
WARNING: CUDA is not available - running on CPU
W tensorflow/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: \
cannot open shared object file: No such file or directory
E tensorflow/cuda_driver.cc:268] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected
INFO:absl:Unable to initialize backend 'tpu': libtpu.so: cannot open shared object file: No such file or directory
[n7:12] mca_base_component_repository_open: unable to open mca_btl_openib: libosmcomp.so.3: \
cannot open shared object file: No such file or directory (ignored)
libibverbs: Warning: couldn't load driver 'a.so': a.so: cannot open shared object file: No such file or directory
n7:4711:4750 [0] NCCL INFO NET/Plugin : libnccl-net.so: cannot open shared object file: No such file or directory
n7:4711:4750 [0] NCCL INFO Call to connect returned Connection timed out, retrying
WARNING: Retrying (Retry(total=4)) after connection broken: [Errno -2] Name or service not known
'(MaxRetryError("HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /a"))' thrown \
while requesting HEAD https://huggingface.co/a
Connection refused, retrying in 5 s
checkpoint loaded: 0 mismatched keys
Loading checkpoint: no mismatch in 312 tensors
Missing key(s) in state_dict: none
Message truncated to 512 tokens
ECC errors: 0 uncorrectable
Double Bit ECC Errors: 0
NVLink 0: CRC errors: 0, replay errors: 0, recovery failed: 0
prologue: checking that no GPU has fallen off the bus... ok
GPU thermal violation: 0 us
pcieport 0000:00:1c.0: AER: Multiple Uncorrected (Non-Fatal) error received: 0000:01:00.0
Registered signal handlers for SIGTERM, SIGINT, SIGSEGV
faulthandler enabled for SIGSEGV, SIGFPE, SIGABRT, SIGBUS, SIGILL
Segmentation fault handler installed
Illegal instruction count: 0
Job 17 has not reached its time limit yet
The job reached 80 % of its time limit, saving a checkpoint
/lib/numpy/__init__.py:1: RuntimeWarning: numpy.dtype size changed, may indicate binary incompatibility.
OSError: [Errno 30] Read-only file system: '/home/u/.cache' - using /tmp
CUDA out of memory. Tried to allocate 2.00 GiB. Reducing batch size to 16 and trying again
Address already in use, trying port 6007
UCX  WARN  mlock: Cannot allocate memory
BlockingIOError: [Errno 11] Unable to open file (unable to lock file, 'Resource temporarily unavailable')
no checkpoint found: FileNotFoundError: [Errno 2] No such file or directory: 'last.pt', starting from scratch
requests.exceptions.ProxyError: cannot connect, using cached copy
epoch 3:  45%|####5     | 45/100 [00:12<00:15,  3.61it/s, loss=nan]
| epoch 3 | loss 2.34 | gnorm 0.7 | clip 0 | oom 0 |
{"epoch": 3, "loss": NaN, "errors": 0, "timeouts": 0}
Fehler: Datei nicht gefunden
""".strip().split("\n")


@pytest.mark.parametrize("line", ORDINARY)
def test_what_a_program_says_that_goes_on_is_no_cause(line: str) -> None:
    match = match_text(line, SIGNATURES, raised=False)
    assert match is None or match.signature.role == Role.CONFIRMATION


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/output/inf/a.bin'", "path-missing"),
        (
            "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, 'Resource temporarily unavailable')",
            "",
        ),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "processes-full"),
    ],
)
def test_an_exception_is_not_taken_for_another_one(text: str, expected: str) -> None:
    match = match_text(text, SIGNATURES, raised=True)
    assert (match.signature.id if match else "") == expected


SLOW = (
    "/dev/shm/nccl-",
    "a",
    "job exceeded ",
    "unable to open file a:",
    "norm loss ",
    "AER: ",
    "slurm_a",
    "mismatch ",
    "NVRM: Xid (",
    "shape '[",
    "srun: error: ",
    "a a:",
    "For more ",
)


@pytest.mark.parametrize("words", SLOW)
def test_no_line_takes_long(words: str) -> None:
    text = (words * 4000)[:4000]
    match_text(text, SIGNATURES, raised=True)
    start = time.process_time()
    match_text(text, SIGNATURES, raised=True)
    assert time.process_time() - start < 0.2


def logged(*lines: tuple[float | None, str]) -> list[Line]:
    return [Line(text, "log", None, at) for at, text in lines]


CAUGHT = "ModuleNotFoundError: No module named 'apex'"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (logged((100.0, CAUGHT), *((100.0 + step, "step") for step in range(9))), "module-missing"),
        (logged((100.0, CAUGHT), *((400.0 + step, "step") for step in range(9))), "unknown"),
        (logged((100.0, CAUGHT), (400.0, "gave up")), "module-missing"),
        (logged((None, CAUGHT), *((None, "step") for _ in range(9))), "module-missing"),
        (logged((None, CAUGHT), *((None, "step") for _ in range(200))), "unknown"),
    ],
)
def test_a_line_after_which_the_rank_worked_on_says_nothing_of_its_end(log: list[Line], expected: str) -> None:
    there = evidence([RankEnd(0, 0, 3, 410.0), stopped(1, 411.0)], 0)._replace(lines={0: log})
    found = find_cause(there)
    assert found is not None and found.id == expected and found.standing != ESTABLISHED


@pytest.mark.parametrize(
    ("code", "ended", "standing"), [(1, 700.0, ESTABLISHED), (3, 102.0, ESTABLISHED), (3, 700.0, SUPPORTED)]
)
def test_an_exception_that_a_shell_went_on_after_has_not_ended_its_rank(code: int, ended: float, standing: str) -> None:
    end = RankEnd(0, 0, code, ended, False, RaisedException("ValueError: no", 100.0))
    found = cause([end, stopped(1, 701.0)], 0)
    assert (found.id, found.standing) == ("exception", standing)


def test_an_exception_of_a_rank_that_ended_well_is_not_why_another_one_failed() -> None:
    ends = [raised(0, "ValueError: no", 10.0, code=0), RankEnd(1, 0, 3, 20.0)]
    found = cause(ends, 1)
    assert (found.id, found.standing, found.ranks) == ("unknown", UNKNOWN, (1,))


def test_an_exception_without_a_time_has_ended_its_rank() -> None:
    end = RankEnd(0, 0, 3, 700.0, False, RaisedException("ValueError: no", 0.0))
    assert cause([end, stopped(1)], 0).standing == ESTABLISHED


def test_what_another_rank_printed_before_is_no_cascade() -> None:
    ends = [raised(0, "ValueError: no", 50.0), stopped(1, 51.0)]
    told = explain(evidence(ends, 0, lines={1: ["caught " + OOM]}, times={1: 10.0}))
    assert told is not None and [link.role for link in told.chain] == ["root", "cascade"]
    assert told.chain[1].text.startswith("ended after that by worldsize")


def test_ordinary_lines_that_follow_at_once_are_work_too_and_those_of_a_stack_are_none() -> None:
    steps = logged((1.0, CAUGHT), *((1.0, "step") for _ in range(40)))
    stack = logged((1.0, CAUGHT), *((1.0, "frame #3: a") for _ in range(40)))
    for log, expected in ((steps, "unknown"), (stack, "module-missing")):
        found = find_cause(evidence([RankEnd(0, 0, 3, 2.0), stopped(1)], 0)._replace(lines={0: log}))
        assert found is not None and found.id == expected


def test_the_last_line_of_a_rank_is_shown_where_no_line_is_known() -> None:
    found = cause([RankEnd(0, 0, 3, 10.0), stopped(1)], 0, lines={0: ["no labels for class 3, giving up", "-----"]})
    assert (found.id, found.evidence) == ("unknown", ("its last line: no labels for class 3, giving up",))
    assert "none of its lines" in found.sentence and found.hint
    assert "wrote nothing" in cause([RankEnd(0, 0, 3, 10.0), stopped(1)], 0).sentence


def test_a_connection_that_no_other_rank_ended_is_not_called_a_lost_peers() -> None:
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    alone = cause([raised(0, refused, 10.0), stopped(1), raised(2, refused, 10.1)], 0)
    assert (alone.id, alone.standing) == ("peer-lost", UNKNOWN) and "no other rank had ended" in alone.sentence
    assert "its peer was gone" in cause([raised(0, refused, 10.0), RankEnd(1, 0, 3, 10.2)], 0).sentence


def test_a_program_that_failed_says_why_before_the_script_that_started_it() -> None:
    failed = "subprocess.CalledProcessError: Command '['tar']' returned non-zero exit status 2."
    line = "tar: /data/a.tar: Cannot open: No such file or directory"
    found = cause([raised(0, failed, 10.0), stopped(1)], 0, lines={0: [line]})
    assert (found.id, found.standing, found.evidence) == ("path-missing", SUPPORTED, (line, failed))
    assert found.sentence.endswith(": /data/a.tar")


def test_an_exception_of_a_spawned_process_is_called_by_its_own_name() -> None:
    text = (
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
        'Traceback (most recent call last):\n  File "a.py", line 5, in f\n    x\nIndexError: list index out of range\n'
    )
    assert "raised IndexError" in cause([raised(0, text, 10.0), stopped(1)], 0).sentence


def test_the_node_of_a_cause_is_that_of_its_first_rank() -> None:
    ends = [raised(0, "ValueError: no", 10.2), stopped(1), raised(2, "ValueError: no", 10.0), stopped(3)]
    told = explain(evidence(ends, 2))
    assert told is not None and (told.cause.rank, told.cause.node, told.chain[0].node) == (0, 0, 0)


def test_an_exception_that_came_after_the_others_had_waited_too_long_is_not_established() -> None:
    waited = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
    found = cause([raised(0, waited, 10.0), stopped(1), raised(2, "ValueError: no", 13.0)], 0)
    assert (found.id, found.standing, found.ranks) == ("exception", SUPPORTED, (2,))


def test_a_warning_that_the_exception_confirms_is_the_cause_and_alone_is_none() -> None:
    warning = "[W1129 10:00:00.0 socket.cpp:764] [c10d] The IPv6 network addresses of (n7, 29500) cannot be retrieved \
(gai error: -2 - Name or service not known)."
    late = "DistNetworkError: The client socket has timed out after 2000ms while trying to connect to (n, 1)"
    told = explain(evidence([raised(0, late, 10.0), stopped(1)], 0, lines={0: [warning]}))
    assert told is not None and (told.cause.id, told.cause.standing) == ("name-not-resolved", SUPPORTED)
    assert told.chain[0].role == "root"
    assert cause([RankEnd(0, 0, 3, 10.0), stopped(1)], 0, lines={0: [warning]}).id == "unknown"
