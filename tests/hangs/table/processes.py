"""Processes, native code, what is waited for elsewhere, and what comes at the end."""

from __future__ import annotations

from hangs.cases import ANOTHER, NEVER, case

REDUCE = "all_reduce"

CASES = (
    case("processes/child_sleeps.py", "1x4", {1}, NEVER, REDUCE, "The rank joins a child that sleeps."),
    case("processes/standard_input.py", "1x3", {1}, NEVER, REDUCE, "A program of the rank reads its standard input."),
    case("processes/full_pipe.py", "1x2", {1}, NEVER, REDUCE, "A program cannot end before its pipe is read."),
    case("processes/queue_not_drained.py", "1x4", {1}, NEVER, REDUCE, "A child cannot end before its queue is read."),
    case("processes/killed_in_pool.py", "1x3", {1}, NEVER, REDUCE, "The worker with the task was killed."),
    case("processes/stopped.py", "1x4", {1}, NEVER, REDUCE, "The rank is stopped."),
    case(
        "processes/stopped.py",
        "2x2",
        {2},
        NEVER,
        REDUCE,
        "The first rank of the second node is stopped.",
        "--rank",
        "2",
        "--quiet",
        id="processes-stopped-far",
    ),
    case("processes/stopped_child.py", "1x2", {1}, NEVER, REDUCE, "The rank joins a child that is stopped."),
    case("processes/terminal.py", "1x3", {1}, NEVER, REDUCE, "The rank reads from a terminal without input."),
    case("processes/shell.py", "1x4", {1}, NEVER, REDUCE, "A shell of the rank waits for a pipe."),
    case("processes/forked_logging.py", "1x3", {1}, NEVER, REDUCE, "A child was forked while a lock was held."),
    case("native/python_loop.py", "1x4", {1}, NEVER, REDUCE, "A loop in Python does not end."),
    case(
        "native/python_loop.py",
        "1x2",
        {0},
        NEVER,
        REDUCE,
        "A loop in Python does not end, on rank 0.",
        "--rank",
        "0",
        id="native-python-loop-first",
    ),
    case("native/regular_expression.py", "1x3", {1}, NEVER, REDUCE, "A regular expression tries all ways to match."),
    case("native/endless_sum.py", "1x2", {1}, NEVER, REDUCE, "A sum of an endless sequence, which holds the GIL."),
    case("native/holds_the_interpreter.py", "1x4", {1}, NEVER, REDUCE, "A library waits and holds the GIL."),
    case("native/library_waits.py", "1x3", {1}, NEVER, REDUCE, "A library waits; the GIL is free."),
    case("native/interpreter_held_by_thread.py", "1x3", {1}, NEVER, REDUCE, "A thread waits and holds the GIL."),
    case("native/never_converges.py", "1x4", {1}, NEVER, REDUCE, "An iteration whose error is not a number."),
    case("native/long_computation.py", "1x2", {1}, NEVER, REDUCE, "One call of numpy computes for hours."),
    case("waits/file_of_rank_0.py", "1x4", {1}, NEVER, REDUCE, "The rank looks for a file that rank 0 did not write."),
    case("waits/connecting.py", "1x3", {1}, NEVER, REDUCE, "A server does not answer to an attempt to connect."),
    case("waits/no_answer.py", "1x4", {1}, NEVER, REDUCE, "A server does not answer a request."),
    case("waits/store.py", "1x3", {1}, NEVER, REDUCE, "The key that the rank waits for is never set."),
    case("waits/full_pipe.py", "1x2", {1}, NEVER, REDUCE, "The pipe that the rank writes to is never read."),
    case("waits/no_connection_speaks.py", "2x2", {1}, NEVER, REDUCE, "No connection has anything to read."),
    case(
        "waits/checkpoint.py", "1x4", {0}, NEVER, REDUCE, "The checkpoint's path does not take anything.", "--rank", "0"
    ),
    case("waits/shard.py", "1x3", {1}, NEVER, "gather", "The file of the rank's shard does not take anything."),
    case("exits/signal_handler.py", "1x3", {1}, NEVER, REDUCE, "The handler of a signal waits for an upload."),
    case("exits/at_exit.py", "1x4", {1}, NEVER, "barrier", "A function that was registered for the end waits."),
    case("exits/thread_stays.py", "1x3", {1}, NEVER, "barrier", "A thread continues after the main one has ended."),
    case("exits/exception_and_barrier.py", "1x4", {1}, ANOTHER, REDUCE, "The rank failed, and waits at a barrier."),
    case("exits/early_end.py", "1x4", {1}, NEVER, "store.wait", "The rank has ended with 0 too early.", ended=True),
    case(
        "exits/early_end_of_a_parent.py",
        "1x3",
        {1},
        NEVER,
        REDUCE,
        "The rank has ended with 0; its child keeps the connections open.",
        ended=True,
    ),
)
