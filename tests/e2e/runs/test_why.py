"""`worldsize why` and `worldsize events` on runs of this machine: one run, an array, runs that have not failed."""

from __future__ import annotations

from driver import Cli

TRAIN = """import os, sys, time

if os.environ["RANK"] == "1":
    {}
time.sleep(60)
"""


def fail(cli: Cli, line: str, world: str = "1x2") -> str:
    """The id of a run of which rank 1 executes the line, while the others wait."""
    cli.write("train.py", TRAIN.format(line))
    assert cli("run", "-q", "-w", world, "--", "python", "train.py").code != 0
    return cli.latest()


def test_the_cause_stands_on_the_failure_screen_too(cli: Cli) -> None:
    cli.write("train.py", TRAIN.format("open('data/x')"))
    result = cli("run", "-q", "-w", "1x2", "--", "python", "train.py")
    assert "cause (established, path-missing): a file does not exist: data/x\nwhat to do: " in result.err
    assert cli.status()["failure"]["cause"] == cli.json("why")["cause"]


def test_an_exception_that_no_table_knows_is_told_once(cli: Cli) -> None:
    cli.write("train.py", TRAIN.format("raise KeyError('horse')"))
    result = cli("run", "-q", "-w", "1x2", "--", "python", "train.py")
    assert "\ncause" not in result.err
    why = cli.json("why")
    assert (why["cause"]["id"], why["cause"]["standing"], why["cause"]["hint"]) == ("exception", "established", "")
    assert why["cause"]["sentence"] == "the program raised KeyError, and did not catch it"


def test_nothing_is_explained_of_a_run_that_goes_on_or_went_well(cli: Cli) -> None:
    run = cli.submit("--", "sleep", "60")
    assert cli.ok("why", run).out.endswith(": it has not ended\n")
    assert cli.json("why", run)["cause"] is None
    cli.ok("cancel", run)
    cli("wait", run)
    assert cli.json("why", run)["cause"]["id"] == "cancelled"
    done = cli.run("-q", "--", "true")
    assert cli.ok("why", done).out.endswith(": every rank has ended with 0\n")


def test_an_array_is_folded_by_cause(cli: Cli) -> None:
    script = "import sys\nn = int(sys.argv[1])\nn or sys.exit(0)\nopen('x') if n < 4 else [][n]\n"
    cli.write("train.py", script)
    command = "python train.py ${{inputs.n}}"
    result = cli("run", "-q", "--matrix", "n=0,1,2,3,4,5", "--", *command.split())
    assert result.code != 0
    array = cli.latest().partition("_")[0]
    told = cli.json("why", array, "--all")
    assert [(each["cause"]["id"], len(each["runs"])) for each in told] == [("path-missing", 3), ("exception", 2)]
    assert told[0]["runs"] == ["%s_%d" % (array, number) for number in (1, 2, 3)]
    screen = cli.ok("why", array, "--all").out
    assert screen.startswith("3 × path-missing (established): a file does not exist: x\n  %s_1, " % array)
    refused = cli("why", array)
    assert refused.code == 2 and "worldsize why --all" in refused.err


def test_what_every_node_lacks_is_not_said_to_be_missing_on_one(cli: Cli) -> None:
    fail(cli, "import kept", "2x1")
    assert cli.json("why")["cause"]["id"] == "module-missing"
    assert "module kept, which a rank of another node did not find, does not exist either" in cli.ok("events").out


def test_events_are_in_order_and_by_one_clock(cli: Cli) -> None:
    fail(cli, "raise ValueError('no')", "2x1")
    events = cli.json("events")
    assert [each["time"] for each in events] == sorted(each["time"] for each in events)
    kinds = [(each["source"], each["event"]) for each in events]
    assert kinds[0] == ("client", "created") and ("client", "settled") in kinds
    assert ("node 1", "exception") in kinds and kinds.index(("node 1", "exception")) < kinds.index(
        ("node 1", "stopping")
    )
    assert "rank 1 raised ValueError: no" in cli.ok("events").out


def test_events_of_a_run_that_went_well(cli: Cli) -> None:
    run = cli.run("-q", "--", "true")
    kinds = [each["event"] for each in cli.json("events", run)]
    assert (
        kinds[0] == "created" and kinds[-1] == "settled" and {"submitted", "agent_started", "agent_ended"} <= {*kinds}
    )
