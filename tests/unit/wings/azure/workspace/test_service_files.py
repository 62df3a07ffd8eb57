"""What a client keeps of a job without agents: each rank's log as it is, and the service's word as records."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worldsize.errors import StorageError
from worldsize.plan.plan import node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import ranks_start_time, read_exits
from worldsize.state.records import ExitRecord
from worldsize.wings.azure.workspace.mirror_files import MirroredFiles
from worldsize.wings.azure.workspace.service_files import ServiceJobFiles, ranks_of_logs
from worldsize.wings.frameworks.tensorflow import TensorFlowDistribution

LOG = "user_logs/std_log_process_3.txt"
RECORD = ExitRecord(0, "", 0, 100.0, 200.0, (), None, None, 0)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(str(tmp_path))


def files(paths: RunPaths) -> ServiceJobFiles:
    return ServiceJobFiles(paths, {LOG: 3}, 0o027)


def content(paths: RunPaths) -> bytes:
    return Path(paths.rank_log(3)).read_bytes()


def test_logs_of_ranks_are_known_by_their_names() -> None:
    names = ["user_logs/std_log_process_%02d.txt" % number for number in range(12)]
    assert ranks_of_logs(names, node_major_layout(3, 4)) == {name: rank for rank, name in enumerate(names)}
    assert ranks_of_logs(["user_logs/std_log.txt"], node_major_layout(1, 1)) == {"user_logs/std_log.txt": 0}


@pytest.mark.parametrize(
    "name",
    [
        "std_log.txt",
        "system_logs/std_log.txt",
        "user_logs/../std_log.txt",
        "user_logs/std_log_process_4.txt",
        "user_logs/std_log_process_0_ps.txt",
        "user_logs/std_log_process_-1.txt",
        "user_logs/std_log_process_0.txt\n",
        "user_logs/std_log_process_0_ps/x.txt",
    ],
)
def test_other_files_are_none(name: str, paths: RunPaths) -> None:
    assert ranks_of_logs([name], node_major_layout(2, 2)) == {}
    with pytest.raises(ValueError):
        files(paths).apply(name, 0, b"x")
    assert not os.path.exists(paths.attempt_dir)


def test_parameter_servers_are_counted_apart() -> None:
    nodes = TensorFlowDistribution(worker_count=2, parameter_server_count=2).arrange(2).nodes
    roles = {rank.rank: (rank.role, rank.role_index) for node in nodes for rank in node.ranks}
    own = ["user_logs/std_log_process_%d%s.txt" % (number, kind) for kind in ("", "_ps") for number in (0, 1)]
    found = ranks_of_logs(own, nodes)
    assert [roles[found[name]] for name in own] == [("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1)]
    counted = ["user_logs/std_log_process_%d.txt" % number for number in range(4)]
    found = ranks_of_logs(counted, nodes)
    assert [roles[found[name]] for name in counted] == [("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1)]


def test_of_two_logs_of_one_rank_one_is_read() -> None:
    names = ["user_logs/std_log_process_0.txt", "user_logs/std_log.txt", "user_logs/std_log_process_00.txt"]
    assert ranks_of_logs(names, node_major_layout(1, 1)) == {"user_logs/std_log.txt": 0}


def test_bytes_are_as_they_were_whoever_reads_them(paths: RunPaths) -> None:
    data = b"\xef\xbb\xbfone\r\n\x00two \xff\nno end"
    for start in range(len(data)):
        assert files(paths).apply(LOG, start, data[start : start + 2]) == min(start + 2, len(data))
        assert files(paths).apply(LOG, 0, data[: start + 1]) == min(start + 2, len(data))
    assert content(paths) == data
    assert files(paths).apply(LOG, len(data) + 5, b"later") == files(paths).offset(LOG) == len(data)
    assert content(paths) == data and os.stat(paths.rank_log(3)).st_mode & 0o777 == 0o640


def test_a_client_that_dies_while_it_writes_loses_and_doubles_nothing(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(paths).apply(LOG, 0, b"one\n")
    with monkeypatch.context() as patch:

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(MirroredFiles, "save", die)
        with pytest.raises(KeyboardInterrupt):
            files(paths).apply(LOG, 4, b"two\n")
    assert content(paths) == b"one\ntwo\n" and files(paths).offset(LOG) == 4
    assert files(paths).apply(LOG, 4, b"two\nthree\n") == 14
    assert content(paths) == b"one\ntwo\nthree\n"


def test_a_log_that_is_replaced_begins_anew(paths: RunPaths) -> None:
    files(paths).apply(LOG, 0, b"a long first start\n")
    assert files(paths).offset(LOG, 4) == 0
    files(paths).apply(LOG, 0, b"new\n")
    assert content(paths) == b"new\n"


def test_a_log_that_was_lost_here_is_read_again(paths: RunPaths) -> None:
    files(paths).apply(LOG, 0, b"one\n")
    os.unlink(paths.rank_log(3))
    assert files(paths).offset(LOG) == 0
    files(paths).apply(LOG, 0, b"one\ntwo\n")
    assert content(paths) == b"one\ntwo\n"


def test_nothing_is_written_through_a_link(paths: RunPaths, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    os.makedirs(paths.logs_dir)
    os.symlink(victim, paths.rank_log(3))
    with pytest.raises(StorageError):
        files(paths).apply(LOG, 0, b"x")
    assert victim.read_bytes() == b"mine"


def test_records_are_written_once(paths: RunPaths) -> None:
    for time in (100.0, 123456.5):
        files(paths).write_start(time)
        files(paths).write_end([RECORD._replace(node_rank=node, ended=time + 100) for node in (0, 1)])
    assert ranks_start_time(paths) == 100.0
    assert read_exits(paths, 2) == (RECORD, RECORD._replace(node_rank=1))
    assert json.loads(Path(paths.events(0)).read_text())["from"] == "Azure ML"
    assert os.stat(paths.exit_record(1)).st_mode & 0o777 == 0o640
