"""The process that asks GPUs, in the place of which a program stands that a test has written."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.wings.metrics.agent.gpus.amd import amd_gpus
from worldsize.wings.metrics.agent.gpus.devices import VISIBLE, gpu_environment, has_gpus
from worldsize.wings.metrics.agent.gpus.helper import GpuHelper, GpuTraffic
from worldsize.wings.metrics.agent.gpus.nvml import Facts, Reading
from worldsize.wings.metrics.agent.records import GpuFacts, GpuSample

FACTS = '{"gpus":[[0,"GPU-1","NVIDIA H100",85899345920],["x"],[1,"GPU-2","",null]]}\n'
READING = '{"gpus":[[0,0.5,1000,300.0],[1,null,null,null],[2]],"cpu":%g}\n'
ENVIRON = {"PATH": os.environ["PATH"]}
SOON = 20.0
GIVEN = """
import os, sys, time
def say(text): os.write(0, text.encode())
def hear(): return os.read(0, 99) or sys.exit()
"""
Start = Callable[[str], GpuHelper]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a helper whose process executes these lines of Python; `say(text)` and `hear()` speak with the agent."""
    helpers: list[GpuHelper] = []

    def begin(lines: str) -> GpuHelper:
        program = tmp_path / ("program-%d" % len(helpers))
        program.write_text("#!%s -IS\n%s%s" % (sys.executable, GIVEN, lines))
        program.chmod(0o700)
        helpers.append(GpuHelper(ENVIRON, str(program)))
        return helpers[-1]

    yield begin
    for helper in helpers:
        helper.end(True)
        os.waitpid(helper.pid, 0)


def test_gpus_are_found_and_read(start: Start) -> None:
    helper = start("say(%r)\nfor cpu in (0.25, 0.5, 1.0): hear(); say(%r %% cpu)" % (FACTS, READING))
    assert helper.find(SOON) == (GpuFacts(0, "GPU-1", "NVIDIA H100", 80 << 30), GpuFacts(1, "GPU-2", "", None))
    samples = (GpuSample(0, 0.5, 1000, 300.0), GpuSample(1, None, None, None))
    assert [helper.read(SOON) for _ in range(3)] == [(samples, 0.0), (samples, 0.25), (samples, 0.5)]
    assert helper.read(SOON) == ((), 0.0)


def test_processes_on_gpus_are_those_of_the_last_reading(start: Start) -> None:
    first, second = ('{"gpus":[],"processes":%s}\n' % rows for rows in ('[[0,7],[1,8],[1],7,["0",7],[0,true]]', '"x"'))
    helper = start("say(%r)\nhear(); say(%r)\nhear(); say(%r)\nhear()" % (FACTS, first, second))
    assert helper.find(SOON)
    assert helper.computing == []
    helper.read(SOON)
    assert helper.computing == [(0, 7), (1, 8)]
    helper.read(SOON)
    assert helper.computing == []


def test_the_traffic_of_memory_is_that_of_the_last_reading(start: Start) -> None:
    rows = '[[0,0.41,true],[1,0,false],[2,0.5],[3,null,true],[4,"x",true],7]'
    helper = start("say(%r)\nhear(); say('{\"traffic\":%s}\\n')\nhear(); say('{}\\n')\nhear()" % (FACTS, rows))
    assert helper.find(SOON)
    assert helper.traffic == []
    helper.read(SOON)
    assert helper.traffic == [GpuTraffic(0, 0.41, True), GpuTraffic(1, 0, False)]
    helper.read(SOON)
    assert helper.traffic == []


def test_one_is_polled_without_waiting(start: Start, tmp_path: Path) -> None:
    """The answer to one call comes with a later one; nothing is asked again before it has come."""
    asked = tmp_path / "asked"
    answers = "hear(); open(%r, 'a').write('.'); say(%r %% cpu)" % (str(asked), READING)
    helper = start("say(%r)\nfor cpu in (0.25, 0.5): %s\nhear()" % (FACTS, answers))
    assert helper.poll() == ()
    assert helper.find(SOON)
    assert helper.poll() == ()
    deadline = time.monotonic() + SOON
    while not (found := helper.poll()):
        assert time.monotonic() < deadline
    assert found[0] == GpuSample(0, 0.5, 1000, 300.0)
    while len(asked.read_bytes()) < 2:
        assert time.monotonic() < deadline


def test_one_that_hangs_or_ends_is_polled_in_vain(start: Start) -> None:
    for lines in ("hear(); time.sleep(1000)", ""):
        helper = start("say(%r)\n%s" % (FACTS, lines))
        assert helper.find(SOON)
        assert [helper.poll() for _ in range(3)] == [()] * 3


def test_one_that_says_nothing_is_not_waited_for(start: Start) -> None:
    helper = start("time.sleep(1000)")
    assert helper.find(0.0) is None
    assert helper.read(0.0) == ((), 0.0)


def test_one_that_hangs_later_is_asked_once_and_its_late_answer_is_dropped(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    late = "while not os.path.exists(%r): time.sleep(0.01)\n" % str(go)
    helper = start("say(%r)\nhear()\n%ssay(%r %% 1.0)\nhear()\nsay(%r %% 2.0)" % (FACTS, late, READING, READING))
    assert helper.find(SOON)
    assert [helper.read(0.0) for _ in range(3)] == [((), 0.0)] * 3
    go.touch()
    deadline = time.monotonic() + SOON
    while not (found := helper.read(SOON))[0]:
        assert time.monotonic() < deadline
    assert found[0][0] == GpuSample(0, 0.5, 1000, 300.0)


@pytest.mark.parametrize("lines", ["", "sys.exit(1)", "say('{')", "say('x' * 200000)"])
def test_one_that_ends_or_says_no_end_has_no_gpus(start: Start, lines: str) -> None:
    helper = start(lines)
    assert helper.find(SOON) == ()
    assert helper.read(SOON) == ((), 0.0)


@pytest.mark.parametrize(
    "answer", ["null", "7", "{", '{"gpus":7}', '{"gpus":[[true]]}', "[" * 50_000, '{"gpus":[[NaN]]}']
)
def test_rubbish_is_left_out(start: Start, answer: str) -> None:
    helper = start("say(%r)\nwhile True: hear(); say(%r + chr(10))" % (FACTS, answer))
    assert helper.find(SOON)
    assert [helper.read(SOON)[0] for _ in range(2)] == [(), ()]


def test_it_is_an_agents_helper_and_ends_when_its_socket_is_closed(start: Start) -> None:
    helper = start("say(os.environ['WORLDSIZE_HELPER_OF'])\nsay(chr(10))\nhear()")
    assert helper.find(SOON) == ()  # its first line is a number
    helper._socket.shutdown(2)
    os.waitid(os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize(
    ("names", "environ", "found"),
    [
        (["nvidia0"], {}, True),
        (["dxg"], {}, True),
        (["kfd"], {}, True),
        (["nvidiactl", "nvidia-uvm", "null"], {}, False),
        ([], {}, False),
        (["nvidia0"], {"WORLDSIZE_VIRTUAL_GPUS": "8"}, False),
    ],
)
def test_it_is_started_where_there_is_a_device(
    tmp_path: Path, names: list[str], environ: dict[str, str], found: bool
) -> None:
    (tmp_path / "dev").mkdir()
    for name in names:
        (tmp_path / "dev" / name).touch()
    assert has_gpus(environ, str(tmp_path)) is found


def test_amds_gpus_are_read_from_files(tmp_path: Path) -> None:
    cards = {
        "card0": ("0000:c1:00.0", "0x1002"),
        "card1": ("0000:41:00.0", "0x1002"),
        "card2": ("0000:01:00.0", "0x1a03"),
    }
    for card, (address, vendor) in cards.items():
        device = tmp_path / "sys/devices" / address
        (device / "hwmon/hwmon3").mkdir(parents=True)
        for name, text in {
            "vendor": vendor, "gpu_busy_percent": "73", "mem_info_vram_total": "68702699520",
            "mem_info_vram_used": "1024", "mem_busy_percent": "38", "unique_id": "b7" + address[5:7],
            "hwmon/hwmon3/power1_average": "305000000",
        }.items():  # fmt: skip
            (device / name).write_text(text + "\n")
        (tmp_path / "sys/class/drm" / card).mkdir(parents=True)
        (tmp_path / "sys/class/drm" / card / "device").symlink_to(device)
    found = amd_gpus(str(tmp_path))
    assert [gpu.facts() for gpu in found] == [Facts(each, "AMD GPU", 68702699520, False) for each in ("b741", "b7c1")]
    assert found[0].read() == Reading(0.73, 1024, 305.0, 0.38)
    assert found[0].processes() is None
    (tmp_path / "sys/devices/0000:41:00.0/drm/renderD129").mkdir(parents=True)
    assert found[0].read().traffic is None  # it is another container's
    (tmp_path / "dev/dri").mkdir(parents=True)
    (tmp_path / "dev/dri/renderD129").touch()
    assert found[0].read().traffic == 0.38
    (tmp_path / "sys/devices/0000:41:00.0/mem_busy_percent").unlink()
    (tmp_path / "sys/devices/0000:41:00.0/gpu_busy_percent").write_text("")
    (tmp_path / "sys/devices/0000:41:00.0/hwmon/hwmon3/power1_average").unlink()
    assert found[0].read() == Reading(None, 1024, None)
    assert amd_gpus(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("gpus", "visible_devices", "environ", "variable"),
    [
        (2, True, {}, "0,1"),
        (2, True, {VISIBLE: "3,5"}, "3,5"),
        (2, True, {VISIBLE: ""}, ""),
        (2, False, {}, None),
        (None, True, {}, None),
    ],
)
def test_the_gpus_that_are_a_nodes_own(
    gpus: int | None, visible_devices: bool, environ: dict[str, str], variable: str | None
) -> None:
    plan = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 1), ("true",), {}, gpus=gpus)
    plan = plan._replace(visible_devices=visible_devices)
    assert gpu_environment(plan, environ).get(VISIBLE) == variable
