"""Several runs in one submission: their inputs, their order, what is said of them, and how they end together."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time

import pytest
from driver import Cli, wait_for

PRINT = """\
import os, sys
place = [os.environ[name] for name in ("WORLDSIZE_ARRAY_INDEX", "WORLDSIZE_ARRAY_COUNT", "SLURM_ARRAY_TASK_ID")]
print(*sys.argv[1:], *place)
"""
JOB = """\
code: .
command: python train.py ${{inputs.lr}} ${{inputs.seed}} $WORLDSIZE_INPUT_LR
inputs:
  lr: 0.5
  seed: 0
matrix:
  lr: [0.1, 0.01]
  seed: [1, 2, 3]
"""
WAITS = """\
import os, sys, time
open(os.path.join(sys.argv[1], "up-" + os.environ["WORLDSIZE_ARRAY_INDEX"]), "w").close()
while not os.path.exists(os.path.join(sys.argv[1], "go")):
    time.sleep(0.01)
"""


def elements(cli: Cli, array: str) -> list[dict]:
    rows: list[dict] = cli.json("status", array)["elements"]
    return rows


def states(cli: Cli, array: str) -> dict[str, int]:
    found: dict[str, int] = cli.json("status", array)["states"]
    return found


def up(cli: Cli) -> set[str]:
    return {name for name in os.listdir(cli.project) if name.startswith("up-")}


def go(cli: Cli) -> None:
    cli.write("go", "")


def test_a_matrix_is_one_run_for_each_combination(cli: Cli) -> None:
    cli.write("train.py", PRINT)
    result = cli("run", cli.write("job.yml", JOB), "--name", "sweep")
    assert result.code == 0, result
    array = cli.json("list")[0]
    assert (array["state"], array["states"], array["name"]) == ("SUCCEEDED", {"SUCCEEDED": 6}, "sweep")
    assert "array %s: 6 runs of 1 node, 1 rank on local" % array["id"] in result.err
    assert "array %s SUCCEEDED" % array["id"] in result.err and "6 SUCCEEDED" in result.err
    expected = [(lr, seed) for lr in (0.1, 0.01) for seed in (1, 2, 3)]
    assert [row["inputs"] for row in elements(cli, array["id"])] == [{"lr": lr, "seed": seed} for lr, seed in expected]
    printed = ["%d/0:0: %s %s %s %d 6 %d" % (k, lr, seed, lr, k, k) for k, (lr, seed) in enumerate(expected)]
    assert cli.ok("logs").lines == printed
    assert cli.ok("logs", "--element", "1,4-5", "-o", "json").lines[1] == json.dumps(
        {"element": 4, "rank": 0, "node": 0, "line": printed[4].partition("0:0: ")[2]}
    )
    rows = cli.json("list", "-e")
    assert (
        [row["id"] for row in rows]
        == ["%s_%d" % (array["id"], k) for k in range(6)]
        == [row["id"] for row in cli.json("list", array["id"])]
    )
    assert rows[4]["inputs"] == {"lr": 0.01, "seed": 2} and rows[4]["array"] == array["id"]
    assert "lr=0.01 seed=2" in cli.ok("list", array["id"]).lines[5]
    assert not cli("list").out.count("_")


def test_every_verb_works_on_an_element(cli: Cli) -> None:
    cli.write("train.py", PRINT)
    array = cli.submit(cli.write("job.yml", JOB))
    assert cli("wait", array).code == 0
    for name in (array + "_4", array[-6:] + "_4", cli.path(array + "_4")):
        status = cli.status(name)
        assert (status["id"], status["state"]) == (array + "_4", "SUCCEEDED"), name
    assert "element 4 of 6: lr=0.01 seed=2" in cli.ok("status", array + "_4").lines
    assert cli.ok("logs", array + "_4").lines == ["0:0: 0.01 2 0.01 4 6 4"]
    assert cli("wait", array + "_4").code == 0
    assert "already" in cli("cancel", array + "_4").err
    assert "job inputs.seed: 1 → 2" in cli.ok("diff", array + "_3", array + "_4").lines
    assert cli.ok("rerun", array + "_4", "--set", "inputs.seed=9").lines == ["0:0: 0.01 9 0.01 4 6 4"]
    assert cli.json("list", "-n", "1")[0]["state"] == "SUCCEEDED"
    assert "states" not in cli.json("list", "-n", "1")[0]
    wrong = cli("status", array + "_6")
    assert wrong.code == 2 and "has no element 6" in wrong.err and "0 to 5" in wrong.err


def test_verbs_that_want_one_run_say_so_of_an_array(cli: Cli) -> None:
    array = cli.submit("--count", "2", "--", "true")
    cli("wait")
    result = cli("logs", array, "--attempt", "0")
    assert result.code == 2 and "name an element: %s_0" % array in result.err


def test_a_rerun_of_all_takes_the_arrays_own_code(cli: Cli) -> None:
    cli.write("train.py", PRINT)
    first = cli.submit(cli.write("job.yml", JOB), "--at-once", "2")
    assert cli("wait").code == 0
    cli.write("train.py", "raise SystemExit(9)")
    again = cli.ok("rerun", first, "-d").out.strip()
    assert cli("wait", again).code == 0
    assert cli.ok("logs", again).lines == cli.ok("logs", first).lines
    assert again != first


def test_equal_runs_and_a_command_that_declares_its_inputs(cli: Cli) -> None:
    cli.write("train.py", PRINT)
    assert cli("run", "-q", "--count", "3", "--", "python", "train.py", "same").code == 0
    assert cli.ok("logs").lines == ["%d/0:0: same %d 3 %d" % (k, k, k) for k in range(3)]
    words = ["python", "train.py", "--lr", "${{inputs.lr}}", "$HOME"]
    assert cli("run", "--matrix", "lr=0.1,a b", "--", *words).code == 0
    assert cli.ok("logs").lines == ["0/0:0: --lr 0.1 $HOME 0 2 0", "1/0:0: --lr a b $HOME 1 2 1"]


def test_the_first_failing_element_gives_the_code_and_is_shown(cli: Cli) -> None:
    cli.write("train.py", "import sys\nif sys.argv[1] != '0': sys.exit(int(sys.argv[1]))\n")
    words = ["--matrix", "code=0,7,0,9", "--", "python", "train.py", "${{inputs.code}}"]
    result = cli("run", *words)
    array = cli.latest()
    assert result.code == 7
    assert "array %s FAILED" % array in result.err and "2 SUCCEEDED, 2 FAILED" in result.err
    assert "%s_1 (code=7) FAILED: EXIT_CODE: rank 0" % array in result.err
    assert "worldsize logs %s_1 --rank 0" % array in result.err
    assert cli("wait").code == 7
    text = cli.ok("status").out
    assert "2 SUCCEEDED, 2 FAILED" in text and "%s_3 (code=9) FAILED" % array in text
    assert [row["id"] for row in cli.json("list", array, "--state", "failed")] == [array + "_1", array + "_3"]


def test_no_more_at_once_than_asked(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    array = cli.submit("--count", "4", "--at-once", "2", "--", "python", "train.py", cli.project)
    wait_for(lambda: len(up(cli)) == 2)
    time.sleep(0.3)
    assert up(cli) == {"up-0", "up-1"}
    wait_for(lambda: states(cli, array) == {"RUNNING": 2, "QUEUED": 2})
    assert [row["state"] for row in elements(cli, array)] == ["RUNNING", "RUNNING", "QUEUED", "QUEUED"]
    assert "waits in" in elements(cli, array)[2]["message"]
    assert cli.status(array)["state"] == "RUNNING" and "2 RUNNING" in cli.ok("status", array).out
    go(cli)
    assert cli("wait", array).code == 0 and len(up(cli)) == 4


def test_each_element_has_a_working_directory_of_its_own(cli: Cli) -> None:
    cli.write(
        "train.py",
        "import os\nopen('outputs/' + os.environ['RANK'], 'w').write(os.environ['SLURM_ARRAY_TASK_ID'])\n"
        "open('here', 'w').close(); import sub.part\nprint(sorted(os.listdir()), open('data/x').read())\n",
    )
    cli.write("sub/part.py", "")
    cli.write("data/x", "data")
    cli.write("outputs/old", "kept")
    os.symlink("data", os.path.join(cli.project, "link"))
    assert cli("run", "--count", "2", "-w", "1x2", "--", "python", "train.py").code == 0
    array = cli.latest()
    for k in range(2):
        element = "%s_%d" % (array, k)
        assert cli.read(element, "outputs", "0") == cli.read(element, "outputs", "1") == str(k)
        assert cli.read(element, "outputs", "old") == "kept"
        assert cli.read(element, "code", "link", "x") == "data"
        assert os.stat(cli.path(element, "code", "train.py")).st_nlink >= 3
    assert not os.path.exists(cli.path(array, "code", "here"))
    assert os.listdir(cli.path(array, "outputs")) == ["old"]


def test_cancelling_all_ends_what_runs_and_what_waits(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    array = cli.submit("--count", "5", "--at-once", "2", "--", "python", "train.py", cli.project)
    wait_for(lambda: len(up(cli)) == 2)
    assert "cancelling %s" % array in cli.ok("cancel", array).err
    assert cli("wait").code == 130
    assert states(cli, array) == {"CANCELLED": 5} and len(up(cli)) == 2
    assert "already" in cli.ok("cancel", array).err


def test_one_that_waits_is_cancelled_alone(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    array = cli.submit("--count", "3", "--at-once", "1", "--", "python", "train.py", cli.project)
    wait_for(lambda: up(cli) == {"up-0"})
    cli.ok("cancel", array + "_1")
    wait_for(lambda: elements(cli, array)[1]["state"] == "CANCELLED")
    assert "before it was started" in cli.status(array + "_1")["message"]
    cli.ok("cancel", array + "_0")
    wait_for(lambda: up(cli) == {"up-0", "up-2"})
    go(cli)
    assert cli("wait", array).code == 130
    assert states(cli, array) == {"CANCELLED": 2, "SUCCEEDED": 1}
    again = cli("rerun", array + "_1")
    assert again.code == 0, again


def test_ctrl_c_cancels_all(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    process = cli.start("run", "--count", "3", "--", "python", "train.py", cli.project)
    wait_for(lambda: up(cli))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and b"3 CANCELLED" in err, err


def test_it_goes_on_without_whoever_started_it(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    process = cli.start("run", "--count", "3", "--", "python", "train.py", cli.project)
    wait_for(lambda: up(cli))
    (array,) = [name for name in os.listdir(os.path.join(cli.home, "runs")) if name[0] == "2"]
    wait_for(lambda: os.path.exists(cli.path(array, "handles.json")))
    process.kill()
    process.communicate()
    go(cli)
    assert cli("wait").code == 0 and len(up(cli)) == 3


def test_what_waits_is_lost_with_its_queue_and_what_runs_is_not(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    array = cli.submit("--count", "3", "--at-once", "1", "--", "python", "train.py", cli.project)
    wait_for(lambda: up(cli))
    with open(cli.path(array, "handles.json")) as file:
        os.kill(json.load(file)[0]["pid"], signal.SIGKILL)
    wait_for(lambda: elements(cli, array)[1]["state"] == "LOST")
    assert "should start it" in elements(cli, array)[2]["message"]
    wait_for(lambda: elements(cli, array)[0]["state"] == "RUNNING")
    go(cli)
    assert cli("wait", array).code == 1
    assert states(cli, array) == {"SUCCEEDED": 1, "LOST": 2}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count", "0"], "--count: is 0, must be 1 to 10000"),
        (["--matrix", "lt=1,2"], "--matrix lt: names none of the job's inputs"),
        (["--matrix", "lr=0.1,"], "--matrix lr: a value is empty"),
        (["--count", "2"], "--count: cannot be combined with a matrix"),
        (["--set", "inputs.lr=3"], "--set inputs.lr: the matrix already varies it"),
        (["--at-once", "0"], "--at-once: at least one run at a time"),
        (["--after", "nothing"], "no run is named 'nothing'"),
        (["--set", "command=python train.py ${{inputs.rl}}"], "--set command: ${{inputs.rl}} names none"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_created(cli: Cli, words: list[str], message: str) -> None:
    cli.write("train.py", PRINT)
    result = cli("run", cli.write("job.yml", JOB), *words)
    assert result.code == 2 and message in result.err, result
    assert not os.path.exists(os.path.join(cli.home, "runs"))


def test_a_dry_run_shows_the_first_and_creates_nothing(cli: Cli) -> None:
    cli.write("train.py", PRINT)
    result = cli("run", cli.write("job.yml", JOB), "--dry-run")
    assert result.code == 0
    assert "6 runs; this is the first" in result.err and "RUN_4: lr=0.01 seed=2" in result.err
    assert "python train.py 0.1 1 " in result.out and "WORLDSIZE_ARRAY_COUNT=6" in result.out
    assert "WORLDSIZE_RUN_ID=RUN_0" in result.out
    assert not os.path.exists(os.path.join(cli.home, "runs"))


def test_without_the_ids_of_all_those_that_have_started_are_still_known(cli: Cli) -> None:
    """As when whoever submitted them was killed at that very moment."""
    cli.write("train.py", WAITS)
    array = cli.submit("--count", "3", "--at-once", "1", "--", "python", "train.py", cli.project)
    wait_for(lambda: up(cli) == {"up-0"} and os.path.exists(cli.path(array + "_0", "handle.json")))
    os.unlink(cli.path(array, "handles.json"))
    os.symlink("999999:1:%s" % os.uname().nodename, cli.path(array, "preparing"))
    wait_for(lambda: [row["state"] for row in elements(cli, array)] == ["RUNNING", "LOST", "LOST"])
    go(cli)
    wait_for(lambda: states(cli, array) == {"SUCCEEDED": 3})


def test_damage_is_said_and_hides_nothing_else(cli: Cli) -> None:
    first, second = (cli.submit("--count", "3", "--", "true") for _ in range(2))
    cli("wait", first)
    cli("wait", second)
    for path in (cli.path(first, "array.json"), cli.path(first, "result.json"), cli.path(second, "result.json")):
        with open(path, "w") as file:
            file.write('{"summ')
    with open(cli.path(second + "_1", "result.json"), "w") as file:
        file.write("[]")
    shutil.rmtree(cli.path(second + "_2"))
    rows = {row["id"]: row["state"] for row in cli.json("list")}
    assert rows == {first: "LOST", second: "LOST"}
    assert states(cli, second) == {"SUCCEEDED": 1, "LOST": 2}
    assert "damaged" in elements(cli, second)[1]["message"]
    wrong = cli("status", first)
    assert wrong.code == 1 and "array.json" in wrong.err and "Traceback" not in wrong.err
    assert cli("status", first + "_1").code == 2
    shutil.rmtree(cli.path(second))
    assert cli("status", second).code == 2


def test_prune_takes_arrays_whole(cli: Cli) -> None:
    array = cli.submit("--count", "3", "--", "true")
    cli("wait")
    single = cli.run("--", "true")
    gone = cli.json("prune", "--keep", "1")
    assert [row["id"] for row in gone] == [array] and gone[0]["bytes"] > 0
    assert os.listdir(os.path.join(cli.home, "runs")).count(array) == 0
    assert [row["id"] for row in cli.json("list")] == [single]


def test_an_array_in_a_runs_dir_of_its_own_shared_with_the_group(cli: Cli) -> None:
    cli.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n' % os.path.join(cli.root, "shared"))
    cli.write("train.py", PRINT)
    cli.write("job.yml", JOB + "share: group\n")
    assert cli("run", "job.yml").code == 0
    array = cli.latest()
    assert os.readlink(cli.path(array)) == os.path.join(cli.root, "shared", array)
    element = array + "_2"
    assert cli.status(element)["directory"] == os.path.join(cli.root, "shared", array, element)
    for parts, mode in (((), 0o750), (("plan.json",), 0o640), (("result.json",), 0o640), (("code",), 0o750)):
        assert os.stat(cli.path(element, *parts)).st_mode & 0o777 == mode, parts


# runs that wait for others


def test_a_run_waits_for_an_array_and_says_so(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    array = cli.submit("--count", "2", "--", "python", "train.py", cli.project)
    run = cli.submit("--after", array, "--", "echo", "done")
    status = cli.status(run)
    assert (status["state"], status["message"]) == ("QUEUED", "waits for %s" % array)
    more = cli.submit("--after", run, "--after-any", array, "--count", "2", "--", "true")
    assert cli.status(more)["states"] == {"QUEUED": 2}
    assert "waits for %s, %s" % (run, array) in cli.ok("status", more).out
    go(cli)
    assert cli("wait", more).code == 0
    assert cli.status(run)["state"] == cli.status(array)["state"] == "SUCCEEDED"
    assert cli.status(run)["started"] >= cli.status(array)["ended"]
    assert cli.ok("logs", run).lines == ["0:0: done"]


def test_a_run_that_waits_for_one_that_fails_never_starts(cli: Cli) -> None:
    cli.write("train.py", WAITS + "sys.exit(3)\n")
    first = cli.submit("--count", "1", "--", "python", "train.py", cli.project)
    never = cli.submit("--after", first, "--", "touch", os.path.join(cli.project, "started"))
    later = cli.submit("--after-any", first, "--", "true")
    go(cli)
    assert cli("wait", never).code == 1
    status = cli.status(never)
    assert (status["state"], status["reason"]) == ("FAILED", "DEPENDENCY")
    assert status["message"] == "it waited for %s to succeed, and that run is FAILED" % first
    assert cli("wait", later).code == 0
    assert not os.path.exists(os.path.join(cli.project, "started"))
    too_late = cli("submit", "--after", first, "--", "true")
    assert too_late.code == 2 and "%s_0 is FAILED, so this run would never start" % first in too_late.err


def test_a_run_that_waits_can_be_cancelled(cli: Cli) -> None:
    cli.write("train.py", WAITS)
    first = cli.submit("--count", "1", "--", "python", "train.py", cli.project)
    run = cli.submit("--after", first, "--", "true")
    cli.ok("cancel", run)
    assert cli("wait", run).code == 130
    go(cli)
    assert cli("wait", first).code == 0


def test_what_has_succeeded_already_is_waited_for_by_nobody(cli: Cli) -> None:
    done = cli.run("--", "true")
    assert cli("run", "--after", done, "--", "true").code == 0
    assert not os.path.exists(cli.path(cli.latest(), "after.json"))


def test_one_that_was_killed_counts_as_ended(cli: Cli) -> None:
    cli.write("train.py", "import time\ntime.sleep(60)\n")
    first = cli.submit("--", "python", "train.py")
    run = cli.submit("--after-any", first, "--", "true")
    os.kill(json.loads(cli.read(first, "handle.json"))["pid"], signal.SIGKILL)
    assert cli("wait", run).code == 0
