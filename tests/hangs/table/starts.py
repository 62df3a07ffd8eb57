"""The meeting of all ranks; MPI; programs without a framework."""

from __future__ import annotations

from hangs.cases import ANOTHER, NEVER, START, STAYS, case

MEETING = "init_process_group"

CASES = (
    case("start/late_rank.py", "1x4", {1}, START, MEETING, "The rank waits for a licence before the meeting."),
    case("start/other_port.py", "1x3", {1}, START, MEETING, "The rank looks for the meeting at another port."),
    case("start/too_many_expected.py", "1x3", None, START, MEETING, "Every rank expects one more than there are."),
    case("start/ended_before.py", "1x4", {1}, START, MEETING, "The rank ended with 0 before the meeting.", ended=True),
    case("start/data_after_meeting.py", "1x4", {1}, START, MEETING, "The rank waits for what comes after the meeting."),
    case("start/two_masters.py", "2x2", None, START, MEETING, "Each node has a meeting of its own."),
    case(
        "mpi/receive.py",
        "1x4",
        {1},
        ANOTHER,
        "Allreduce",
        "The rank receives a message that is never sent.",
        needs="mpi",
    ),
    case("mpi/other_call.py", "1x3", {1}, ANOTHER, "Allreduce", "The rank is at a barrier.", needs="mpi"),
    case("mpi/lock.py", "2x2", {1}, NEVER, "Allreduce", "The rank waits for an event of its own.", needs="mpi"),
    case("mpi/ring.py", "1x3", None, STAYS, "ssend", "Every rank sends before it receives.", needs="mpi"),
    case("mpi/left_by_break.py", "1x3", {1}, ANOTHER, "Allreduce", "The rank left the loop by break.", needs="mpi"),
    case("plain/parameter_server.py", "1x4", {1}, ANOTHER, "recv", "The rank waits for an answer to nothing."),
    case("plain/both_send.py", "1x2", None, STAYS, "sendall", "Both ranks send before they receive."),
    case("plain/file_barrier.py", "1x4", {1}, NEVER, "", "The rank ended before a barrier of files.", ended=True),
    case("plain/turns.py", "1x3", {1}, NEVER, "flock", "The rank keeps a lock and waits for a program of its own."),
)
