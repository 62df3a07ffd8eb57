"""Loaders of data, and locks."""

from __future__ import annotations

from hangs.cases import NEVER, case

REDUCE = "all_reduce"

CASES = (
    case("loader/worker_sleeps.py", "1x4", {1}, NEVER, REDUCE, "A worker of rank 1's data loader sleeps."),
    case(
        "loader/worker_sleeps.py",
        "2x2",
        {3},
        NEVER,
        REDUCE,
        "A worker of rank 3's data loader sleeps, on the second node.",
        "--rank",
        "3",
        id="loader-worker-sleeps-far",
    ),
    case("loader/worker_lock.py", "1x3", {1}, NEVER, REDUCE, "A worker was forked while a lock was held."),
    case("loader/fifo.py", "1x4", {1}, NEVER, REDUCE, "A sample comes from a pipe without a writer."),
    case(
        "loader/fifo.py",
        "2x2",
        {0},
        NEVER,
        REDUCE,
        "As loader-fifo, on rank 0, and no rank prints anything.",
        "--rank",
        "0",
        "--quiet",
        id="loader-fifo-first",
    ),
    case("loader/fifo_in_worker.py", "1x2", {1}, NEVER, REDUCE, "One of two workers opens a pipe without a writer."),
    case("loader/server_is_silent.py", "1x4", {1}, NEVER, REDUCE, "The server of the samples has fallen silent."),
    case("loader/locked_file.py", "1x3", {1}, NEVER, REDUCE, "Another process has locked the file of the sample."),
    case("loader/dead_share.py", "1x2", {1}, NEVER, REDUCE, "The server of a file system is gone.", needs="fuse"),
    case("loader/producer_ended.py", "1x4", {1}, NEVER, REDUCE, "The thread that reads ahead has ended."),
    case("loader/stream_waits.py", "1x3", {1}, NEVER, REDUCE, "A worker waits for a notification that never comes."),
    case("loader/all_wait.py", "1x3", {0, 1, 2}, NEVER, "", "All ranks wait for the same share."),
    case("locks/two_threads.py", "1x4", {1}, NEVER, REDUCE, "Two threads have taken two locks in opposite orders."),
    case("locks/checkpoint_thread.py", "1x4", {1}, NEVER, REDUCE, "The joined thread needs a lock that is held."),
    case(
        "locks/checkpoint_thread.py",
        "2x2",
        {0},
        NEVER,
        REDUCE,
        "As locks-checkpoint-thread, on rank 0, which writes the checkpoints.",
        "--rank",
        "0",
        id="locks-checkpoint-thread-first",
    ),
    case("locks/taken_twice.py", "1x3", {1}, NEVER, REDUCE, "One thread takes the same lock twice."),
    case("locks/file_lock.py", "1x2", {1}, NEVER, REDUCE, "Another process holds the FileLock of a cache."),
    case("locks/missed_notice.py", "1x4", {1}, NEVER, REDUCE, "The notice came before the thread waited for it."),
    case("locks/semaphore.py", "1x3", {1}, NEVER, REDUCE, "A child was killed while it held the common lock."),
    case("locks/one_worker_pool.py", "1x4", {1}, NEVER, REDUCE, "A task waits for one of its own pool of one thread."),
    case("locks/coroutine.py", "1x2", {1}, NEVER, REDUCE, "A coroutine waits for an event that is never set."),
)
