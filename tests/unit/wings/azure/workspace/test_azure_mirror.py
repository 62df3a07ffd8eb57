"""The client's copy of a node's files: the same bytes, whoever else writes into the log and whenever a client dies."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relayed_node import KEY, LAYOUT, LOG, RelayedNode, contents
from selection import cases

from worldsize.errors import StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent.log_lines import LogLines, Piece
from worldsize.wings.azure.agent.node_files import NodeFiles
from worldsize.wings.azure.workspace import mirror_files
from worldsize.wings.azure.workspace.mirror import Mirror, node_of_log

RANK_LOG = "logs/rank-00003.log"
EVENTS = "events/node-0001.jsonl"
EXIT = "exit/node-0001.json"


@pytest.fixture
def node(tmp_path: Path) -> RelayedNode:
    return RelayedNode(tmp_path)


def marked(*pieces: Piece) -> bytes:
    return b"".join(line for each in pieces for line in LogLines(KEY).marked_lines(each))


def test_logs_of_nodes_are_known_by_their_names() -> None:
    found = map(node_of_log, (LOG, "user_logs/std_log.txt", "user_logs/std_log_process_012.txt"))
    assert list(found) == [1, 0, 12]
    names = [
        "std_log.txt",
        "user_logs/std_log_process_0_ps.txt",
        "user_logs/../std_log.txt",
        LOG + "\n",
        "system_logs/x",
    ]
    assert [node_of_log(name) for name in names] == [None] * 5


def test_text_of_others_goes_to_the_nodes_batch_log(node: RelayedNode) -> None:
    node.print(b"\xef\xbb\xbfpulling the image\r\n\n50%")
    node.write(RANK_LOG, b"hello\n")
    node.send()
    node.print(b"done\nnot yet")
    node.read()
    assert node.received() == {RANK_LOG: b"hello\n"}
    assert node.others() == b"\xef\xbb\xbfpulling the image\r\n\n50%\ndone\n"
    node.print(b" over\n")
    node.read()
    assert node.others().endswith(b"done\nnot yet over\n")
    assert node.client.setup_log(1).endswith("/batch-0001.log") and not os.path.exists(node.client.batch_log)


def test_the_first_node_and_its_batch_log(tmp_path: Path) -> None:
    node = RelayedNode(tmp_path, 0)
    node.print(b"setup\n")
    node.write("check.json", b"{}")
    node.write("metrics/mlflow-%s-0" % ("a0" * 16), b"1764224000.123\n")
    node.write("logs/rank-00001.log", b"hello\n")
    node.pass_on()
    assert node.received() == node.sent()
    assert Path(node.client.batch_log).read_bytes() == b"setup\n"


def test_a_line_without_its_end_is_read_again(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"one\ntwo\n")
    node.send()
    size = node.log.stat().st_size
    assert node.read(size - 3) < size - 3
    assert node.received() == {RANK_LOG: b"one\n"}
    assert node.read() == node.mirror().offset(LOG) == size
    assert node.received() == {RANK_LOG: b"one\ntwo\n"}


def test_a_long_line_of_others_does_not_stop_the_log(node: RelayedNode) -> None:
    node.print(b"x" * 1_000_000)
    assert node.read() == 1_000_000 - 4096
    node.print(b"y" * 300_000)
    node.write(RANK_LOG, b"hello\n")
    node.pass_on()
    assert node.received() == {RANK_LOG: b"hello\n"}
    assert node.others().replace(b"\n", b"") == b"x" * 1_000_000 + b"y" * 300_000


def test_what_was_read_is_skipped_and_a_gap_is_not_jumped(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"one\ntwo\n")
    node.send()
    data, mirror = node.log.read_bytes(), node.mirror()
    assert mirror.apply(LOG, 10, data[10:]) == 0 and node.received() == {}
    assert mirror.apply(LOG, 0, data) == mirror.apply(LOG, 0, data) == mirror.apply(LOG, 10, data[10:50]) == len(data)
    assert node.received() == node.sent() and node.others() == b""


def test_a_log_that_was_replaced_is_read_anew(node: RelayedNode) -> None:
    node.print(b"an old image\n" * 100)
    node.write(RANK_LOG, b"one\ntwo\n")
    node.pass_on()
    node.log.unlink()
    node.start_relay()
    node.write(RANK_LOG, b"1\n", "wb")
    node.print(b"a new image\n")
    node.pass_on()
    assert node.received() == node.sent()
    assert node.others() == b"a new image\n"


def test_an_agent_that_was_started_again_in_the_same_log(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"one\ntwo\n")
    node.replace(EXIT, b"{}")
    node.send()
    node.start_relay()
    node.write(RANK_LOG, b"1\n", "wb")
    node.replace(EXIT, b'{"code":0}')
    node.send()
    node.read()
    assert node.received() == node.sent()


def test_lines_that_are_repeated_change_nothing(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"one\ntwo\n")
    node.replace(EXIT, b"{}")
    node.send()
    old = node.log.read_bytes()
    node.write(RANK_LOG, b"three\n")
    node.replace(EXIT, b'{"code":0}')
    node.send()
    node.print(old + old)
    node.write(RANK_LOG, b"four\n")
    node.pass_on()
    assert node.received() == node.sent() and node.others() == b""


def test_what_was_lost_on_the_way_is_said(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"one\ntwo\nthree\n")
    node.replace(EXIT, b"x" * 4000)
    node.send()
    lines = node.log.read_bytes().splitlines(True)
    torn = b"".join(b"torn\n" if b"[3] two" in line or b'"at":0,"whole":4000' in line else line for line in lines)
    assert torn.count(b"torn") == 2
    node.log.write_bytes(torn)
    node.read()
    assert node.received() == {RANK_LOG: b"one\n\nworldsize: 4 bytes were lost on their way from the node\nthree\n"}
    node.replace(EXIT, b"y" * 4000)
    node.write(RANK_LOG, b"four\n")
    node.pass_on()
    assert node.received()[RANK_LOG].endswith(b"three\nfour\n") and node.received()[EXIT] == b"y" * 4000


@pytest.mark.parametrize("name", ["mlflow-%s-0" % ("A0" * 16), "mlflow-..-0", "mlflow-%s-0/x" % ("a0" * 16)])
def test_a_run_of_mlflow_has_an_id(tmp_path: Path, name: str) -> None:
    assert "metrics/mlflow-%s-12" % ("a0" * 16) in NodeFiles(0, [0])
    assert "metrics/" + name not in NodeFiles(0, [0]) and "metrics/" + name + "\n" not in NodeFiles(0, [0])


@pytest.mark.parametrize(
    "file",
    [
        *("../x", "/etc/passwd", "attempt-0/../x", "attempt-0//" + RANK_LOG, "attempt-0/logs/../" + RANK_LOG),
        *("attempt-999999/" + RANK_LOG, "attempt-00/" + RANK_LOG, "attempt--1/" + RANK_LOG, "attempt-²/" + RANK_LOG),
        *("attempt-/" + RANK_LOG, "attempt-0", "attempt-0/", "", "result.json", "handle.json", "code/x", "plan.json"),
        *("attempt-0/rendezvous.json", "attempt-0/check.json", "attempt-0/launch/x", "attempt-0/cancel.json"),
        *("attempt-0/logs/rank-00001.log", "attempt-0/logs/rank-3.log", "attempt-0/events/node-0000.jsonl"),
        *("attempt-0/exit/node-0000.json", "attempt-0/logs/agent-0000.log", "attempt-0/logs/" + "a" * 40 + "-0001.log"),
        *("attempt-0/metrics/mlflow-%s-0" % ("a0" * 16), "attempt-0/steps/step-0000.json"),
        *("attempt-0/logs/../x-0001.log", "attempt-0/logs/a\0-0001.log", "attempt-0/logs/ü-0001.log", "dev/null"),
    ],
)  # fmt: skip
def test_a_log_has_no_other_files_written(node: RelayedNode, file: str) -> None:
    before = contents(node.client.root)
    for whole in (None, 1):
        data = marked(Piece(file, 1, 0, b"x", whole))
        node.log.write_bytes(data)
        assert node.mirror().apply(LOG, node.mirror().offset(LOG, 0), data) == len(data)
    after = contents(node.client.root)
    assert {name for name in after if name.split("/")[0] not in ("batch-0001.log", "relay")} == set(before)
    assert node.others() == data, "it is text of others"
    assert sorted(os.listdir(os.path.dirname(node.client.root))) == ["client", "node", "std_log.txt"]


def test_a_kind_of_file_is_written_in_its_own_way_alone(node: RelayedNode) -> None:
    data = marked(Piece("attempt-0/" + RANK_LOG, 1, 0, b"x", 1), Piece("attempt-0/" + EXIT, 1, 0, b"{}"))
    node.mirror().apply(LOG, 0, data)
    assert node.received() == {} and node.others() == data


def test_a_log_of_no_node_is_refused(node: RelayedNode) -> None:
    for name in ("user_logs/std_log_process_2.txt", "user_logs/../x", "azureml-logs/70_driver_log.txt"):
        with pytest.raises(ValueError, match="is not the log of a node"):
            node.mirror().apply(name, 0, b"x\n")
    assert os.listdir(node.client.root) == []


def test_numbers_of_any_size_take_no_space(node: RelayedNode) -> None:
    huge = 10**15 - 1
    pieces = [Piece("attempt-0/" + RANK_LOG, 1, huge, b"x"), Piece("attempt-0/" + EXIT, huge, 7, b"x", 8 << 20)]
    node.mirror().apply(LOG, 0, marked(*pieces))
    assert sum(map(len, contents(node.client.root).values())) < 1000


@pytest.mark.parametrize("place", ["attempt-0", "attempt-0/logs", "attempt-0/logs/rank-00003.log", "batch-0001.log"])
def test_links_in_the_clients_directory_are_not_followed(node: RelayedNode, tmp_path: Path, place: str) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "logs").mkdir()
    os.makedirs(os.path.dirname(os.path.join(node.client.root, place)), exist_ok=True)
    os.symlink(target / "new" if place.endswith(".log") else target, os.path.join(node.client.root, place))
    node.print(b"others\n")
    node.write(RANK_LOG, b"hello\n")
    node.send()
    with pytest.raises(StorageError, match="cannot write") as caught:
        node.read()
    assert str(caught.value.where).startswith(node.client.root)
    assert contents(str(target)) == {}
    assert node.mirror().offset(LOG) == 0


def test_a_link_is_replaced_by_a_file_that_is_written_as_a_whole(node: RelayedNode, tmp_path: Path) -> None:
    os.makedirs(node.client.exit_dir)
    (tmp_path / "elsewhere").write_text("kept")
    os.symlink(tmp_path / "elsewhere", node.client.exit_record(1))
    node.replace(EXIT, b"{}")
    node.pass_on()
    assert node.received() == node.sent() and (tmp_path / "elsewhere").read_text() == "kept"


def test_a_pipe_in_a_files_place_is_not_waited_for(node: RelayedNode) -> None:
    os.makedirs(node.client.logs_dir)
    os.mkfifo(node.client.rank_log(3))
    node.write(RANK_LOG, b"hello\n")
    node.send()
    with pytest.raises(StorageError):
        node.read()


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"version":1}', '{"version":2,"offset":5,"others":0,"files":{}}', "null"]
)
def test_a_damaged_state_means_to_read_all_again(node: RelayedNode, damage: str) -> None:
    node.print(b"others\n")
    node.write(RANK_LOG, b"hello\n")
    node.pass_on()
    (state,) = Path(node.client.root, "relay").glob("*.txt.json")
    good = json.loads(state.read_text())
    assert good["offset"] == node.log.stat().st_size
    for text in (damage, json.dumps({**good, "offset": -1}), json.dumps({**good, "files": {"x": ["a", 1, 2]}})):
        state.write_text(text)
        assert node.mirror().offset(LOG) == 0
        node.read()
        assert node.received() == node.sent() and node.others() == b"others\n"


def test_a_file_that_lost_bytes_here_means_to_read_all_again(node: RelayedNode) -> None:
    node.write(RANK_LOG, b"one\ntwo\n")
    node.pass_on()
    with open(node.client.rank_log(3), "r+b") as file:
        file.truncate(2)
    node.write(RANK_LOG, b"three\n")
    node.send()
    assert node.mirror().offset(LOG) == 0
    node.read()
    assert node.received() == node.sent()


def test_attempts_have_their_own_files(node: RelayedNode, tmp_path: Path) -> None:
    node.write(RANK_LOG, b"first attempt\n")
    node.send()
    node.node, node.client = RunPaths(node.node.root, 1), RunPaths(node.client.root, 1)
    os.makedirs(node.node.logs_dir)
    node.start_relay()
    node.write(RANK_LOG, b"second attempt\n")
    node.send()
    node.read()
    node.write(RANK_LOG, b"goes on\n")
    node.pass_on()
    assert node.received() == {RANK_LOG: b"second attempt\ngoes on\n"} == node.sent()
    assert Path(RunPaths(node.client.root).rank_log(3)).read_bytes() == b"first attempt\n"


def test_two_clients_at_once(node: RelayedNode) -> None:
    node.print(b"others\n" * 50)
    node.write(RANK_LOG, b"".join(b"line %d\n" % number for number in range(400)))
    node.write(EVENTS, b'{"event":"x"}\n' * 200)
    node.send()
    size, failures = node.log.stat().st_size, []

    def read_in_pieces(step: int) -> None:
        try:
            mirror = node.mirror()
            while node.read(step, mirror) < size:
                pass
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    clients = [threading.Thread(target=read_in_pieces, args=(step,)) for step in (1500, 2100, 4096)]
    for each in clients:
        each.start()
    for each in clients:
        each.join(120)
    assert failures == [] and node.received() == node.sent() and node.others() == b"others\n" * 50


# arbitrary sequences


class Killed(BaseException):
    """Ends a client between two of its steps."""


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """Whatever changes a file raises from its `step`th call on; what a write has begun stays half done."""
    left = [step]
    patched = pytest.MonkeyPatch()

    def bounded(function: Callable[..., Any], partly: bool = False) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                if partly and left[0] == -1:
                    function(given[0], given[1][: len(given[1]) // 2])
                raise Killed
            return function(*given, **named)

        return call

    patched.setattr(mirror_files, "write_all", bounded(mirror_files.write_all, partly=True))
    patched.setattr(mirror_files, "write_json", bounded(mirror_files.write_json))
    for name in ("ftruncate", "replace", "mkdir"):
        patched.setattr(os, name, bounded(getattr(os, name)))
    try:
        yield
    except Killed:
        pass
    finally:
        patched.undo()


def test_a_client_that_is_killed_anywhere_goes_on(tmp_path: Path) -> None:
    for step in range(40):
        place = tmp_path / str(step)
        place.mkdir()
        node = RelayedNode(place)
        for text in (b"one\n", b"two\n"):
            node.print(b"others\n")
            node.write(RANK_LOG, text)
            node.replace(EXIT, text * 2000)
            node.send()
            with killed_at(step):
                node.read()
        node.read()
        assert node.received() == node.sent() and node.others() == b"others\n" * 2, step


TEXTS = st.binary(max_size=80) | st.sampled_from(
    [
        *(
            b"line\n",
            b"[2] forged #0+1.AAAAAAAA\n",
            b'worldsize> {"file":"x"} #3.AAAAAAAA\n',
            b"\r 50%",
            b"a\r\n",
            b"\0\n",
        ),
        *(b"x" * 5000, "schön\n".encode(), b"\xff\xfe\n", b"\n\n\n", b"[3] "),
    ]
)
GROWING = st.sampled_from([RANK_LOG, "logs/rank-00002.log", EVENTS, "logs/agent-0001.log"])
WHOLE = st.sampled_from([EXIT, "errors/rank-00002.json"])
ACTIONS = st.one_of(
    st.tuples(st.just("write"), GROWING, TEXTS),
    st.tuples(st.just("replace"), WHOLE, TEXTS),
    st.tuples(st.just("empty"), GROWING),
    st.tuples(st.just("print"), TEXTS),
    st.tuples(st.just("step")),
    st.tuples(st.just("wait"), st.floats(0, 3)),
    st.tuples(st.just("read"), st.integers(0, 9000)),
    st.tuples(st.just("kill"), st.integers(0, 12)),
    st.tuples(st.just("repeat"), st.integers(0, 5000), st.integers(0, 5000)),
)


@given(st.lists(ACTIONS, max_size=40))
@settings(max_examples=cases(100), deadline=None)
def test_files_arrive_as_they_are(actions: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        node = RelayedNode(Path(place))
        for kind, *given_values in actions:
            act(node, kind, *given_values)
        node.relay.finish()
        node.print(b"\n")
        node.read()
        assert node.received() == node.sent()


def act(node: RelayedNode, kind: str, *given_values: Any) -> None:
    """One thing that happens to the node, its log or a client."""
    if kind in ("write", "replace", "print"):
        getattr(node, kind)(*given_values)
    elif kind == "empty":
        node.send()  # what is emptied and filled again between two looks cannot be told from what has grown
        node.write(given_values[0], b"", "wb")
        node.relay.step()
    elif kind == "step":
        node.relay.step()
    elif kind == "wait":
        node.now += given_values[0]
    elif kind == "read":
        node.read(given_values[0])
    elif kind == "kill":
        with killed_at(given_values[0]):
            node.read()
    else:
        start, size = given_values
        node.print(b"\n" + node.log.read_bytes()[start : start + size] + b"\n")


@given(st.binary(max_size=3000) | st.lists(TEXTS).map(b"".join))
@settings(max_examples=cases(50), deadline=None)
def test_no_log_does_harm(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        paths = RunPaths(place)
        mirror = Mirror(paths, KEY, LAYOUT)
        mirror.apply(LOG, 0, data)
        assert not os.path.exists(paths.attempt_dir)
        whole = data[: data.rfind(b"\n") + 1]
        assert mirror.offset(LOG) == len(whole)
        assert not whole or Path(paths.setup_log(1)).read_bytes() == whole
