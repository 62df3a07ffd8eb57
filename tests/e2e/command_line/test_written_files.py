"""What runs have written: said at their end, listed, copied, and kept from being removed."""

from __future__ import annotations

import os

import pytest
from driver import Cli

WRITES = ("sh", "-c", "echo $RANK > part-$RANK; mkdir -p logs; echo l > logs/l; echo o > outputs/o")
WRITTEN = ["outputs/o", "part-0", "part-1", "logs/l"]


def test_the_end_of_a_run_says_how_many_files_there_are(cli: Cli) -> None:
    told = cli.ok("run", "-w", "1x2", "--", *WRITES).err
    run = cli.latest()
    assert "3 files in the working directory: worldsize outputs %s" % run in told
    assert [file["path"] for file in cli.json("outputs")] == WRITTEN
    assert "working directory: " not in cli.ok("run", "--", "true").err


def test_the_end_of_a_run_that_failed_says_so_too(cli: Cli) -> None:
    assert "1 file in the working directory" in cli("run", "--", "sh", "-c", "touch x; exit 3").err


def test_copies_are_made_once_and_are_no_code_of_the_next_run(cli: Cli) -> None:
    run = cli.run("-w", "1x2", "--", *WRITES)
    for _ in range(2):
        assert cli.ok("fetch").lines == [os.path.join(cli.project, run, name) for name in WRITTEN]
    with open(os.path.join(cli.project, run, "part-1"), "w") as file:
        file.write("mine")
    refused = cli("fetch")
    assert refused.code == 1 and "exists already, and differs" in refused.err and "--to" in refused.err
    assert not os.path.exists(cli.path(cli.run("--", "true"), "code", run))


def test_the_name_of_an_output_means_its_files(cli: Cli) -> None:
    cli.write("job.yml", "command: echo w > ${{outputs.best}}/w; echo o > outputs/o\noutputs: {best: {}}\n")
    run = cli.run("job.yml")
    (fetched,) = cli.ok("fetch", run, "best").lines
    assert (fetched, cli.ok("fetch", "best").lines) == (os.path.join(cli.project, run, "outputs/best/w"), [fetched])


def test_files_of_an_array_are_those_of_its_elements(cli: Cli) -> None:
    cli.write("kept.txt", "of the code")
    array = cli.submit("--count", "2", "--", *WRITES)
    cli("wait", array)
    elements = ["%s_%d" % (array, number) for number in range(2)]
    files = [(element, path) for element in elements for path in ("outputs/o", "part-0", "logs/l")]
    assert [(file["run"], file["path"]) for file in cli.json("outputs", array)] == files
    assert cli.ok("fetch", array, "part-0", "--to", "copy").lines == [
        os.path.join(cli.project, "copy", element, "part-0") for element in elements
    ]
    assert cli.ok("path", array).out.strip() == cli.path(array)
    assert "name one of them" in cli("path", array, "code").err


def test_places_of_a_run(cli: Cli) -> None:
    run = cli.run("--", "true")
    for words, place in (((), ""), (("outputs",), "outputs"), (("code",), "code"), (("logs",), "attempt-0/logs")):
        assert os.path.samefile(cli.ok("path", run, *words).out.strip(), cli.path(run, place))
    wrong = cli("path", run, "model")
    assert wrong.code == 2 and "outputs, logs, code" in wrong.err


def test_a_run_that_has_written_files_goes_only_when_that_is_said(cli: Cli) -> None:
    writer, other = cli.run("--", *WRITES), cli.run("--", "true")
    refused = cli("rm", writer)
    assert refused.code == 2 and "has written 3 files" in refused.err and "worldsize fetch" in refused.err
    result = cli.ok("prune", "--keep", "0")
    assert other in result.out and writer not in result.out and "kept 1 run" in result.err
    assert writer in cli.ok("rm", writer, "--with-outputs").out and cli.json("list") == []


@pytest.mark.parametrize(("word", "words"), [("ps", ["-o", "json"]), ("ls", ["-o", "json"]), ("cp", ["--to", "x"])])
def test_words_of_other_programs_that_mean_the_same(cli: Cli, word: str, words: list[str]) -> None:
    run = cli.run("--", *WRITES)
    result = cli.ok(word, *words)
    assert run in result.out + result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stop"], "worldsize cancel RUN"),
        (["kill", "417k"], "worldsize cancel RUN --now"),
        (["run", "--gpus", "2", "--", "true"], "-w NxM"),
        (["run", "--nnodes", "2", "--", "true"], "--nodes N"),
        (["run", "--worlds", "2", "--", "true"], "--world"),
    ],
)
def test_words_of_other_programs_name_what_does_the_same(cli: Cli, words: list[str], said: str) -> None:
    result = cli(*words)
    assert result.code == 2 and said in result.err and "virtual" not in result.err


def test_sizes_variables_limits_and_tags_by_options_of_their_own(cli: Cli) -> None:
    words = ("--nodes", "2", "--nproc-per-node", "1", "--env", "COLOR=red", "--timeout", "30m", "--tag", "team=vision")
    assert cli.ok("run", *words, "--", "sh", "-c", "echo $COLOR $WORLD_SIZE").lines == ["×2: red 2"]
    described = cli.json("describe")
    assert described["tags"] == {"team": "vision"} and (described["nodes"], described["ranks"]) == (2, 2)
    both = cli("run", "-w", "1x1", "--nodes", "2", "--", "true")
    assert both.code == 2 and "-w, --nodes" in both.err


def test_a_dry_run_for_slurm_needs_no_cluster(cli: Cli) -> None:
    cli.write("worldsize.toml", '[compute.cluster]\ntype = "slurm"\n')
    result = cli.ok("run", "--compute", "cluster", "-w", "2x1", "--dry-run", "--", "true", PATH="/usr/bin:/bin")
    assert "#SBATCH --nodes=2" in result.out and "not checked" in result.err
