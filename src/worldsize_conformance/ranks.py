"""Tests of what a rank gets, on any compute: its position, its variables, its words, its files."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from worldsize.plan.rank_variables import CONVENTIONS, ON_SLURM_ALONE, VARIABLES
from worldsize_conformance.place import Place


def environments(place: Place, run: str, ranks: int) -> list[dict[str, str]]:
    found = []
    for rank in range(ranks):
        entries = place.read_output(run, "env-%d" % rank).split("\0")
        found.append(dict(entry.split("=", 1) for entry in entries if entry))
    return found


OF_A_FRAMEWORK = ("JAX_LOCAL_DEVICE_IDS", "TF_CONFIG", "WORLDSIZE_HOSTFILE")
"""Variables of other frameworks, which are not set for these ranks."""

OF_SLURM_ITSELF = ("SLURM_JOB_NAME", *ON_SLURM_ALONE)
"""Variables that Slurm itself sets on its own clusters. Elsewhere they may be missing."""

OF_DATA_PARALLEL = ("WORLDSIZE_DATA_PARALLEL",)
OF_A_DEBUGGER = ("WORLDSIZE_DEBUGGER",)
OF_A_REHEARSAL = ("WORLDSIZE_INRANK", "WORLDSIZE_VIRTUAL_GPUS", "WORLDSIZE_HEAD")


def test_every_rank_has_its_place_in_every_convention(place: Place) -> None:
    outer: dict[str, Any] = {
        "RANK": "77",
        "WORLD_SIZE": "99",
        "SLURM_JOB_ID": "5",
        "SLURM_TASKS_PER_NODE": "8",
        "PMI_RANK": "3",
    }
    place.job("env -0 > outputs/env-$RANK", "2x3")
    assert place("run", "job.yml", **outer).code == 0
    ranks = environments(place, place.latest(), 6)
    numbers = [(int(e["RANK"]), int(e["LOCAL_RANK"]), int(e["NODE_RANK"])) for e in ranks]
    assert numbers == [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 0, 1), (4, 1, 1), (5, 2, 1)]
    for each in ranks:
        assert each["WORLD_SIZE"] == each["SLURM_NTASKS"] == each["OMPI_COMM_WORLD_SIZE"] == "6"
        assert each["LOCAL_WORLD_SIZE"] == each["OMPI_COMM_WORLD_LOCAL_SIZE"] == "3"
        assert each["RANK"] == each["SLURM_PROCID"] == each["OMPI_COMM_WORLD_RANK"] == each["WORLDSIZE_RANK"]
        assert each["LOCAL_RANK"] == each["SLURM_LOCALID"] == each["OMPI_COMM_WORLD_LOCAL_RANK"]
        assert each["NODE_RANK"] == each["GROUP_RANK"] == each["SLURM_NODEID"] == each["AZUREML_CR_NODE_RANK"]
        assert each["AZUREML_NODE_COUNT"] == each["SLURM_NNODES"] == each["WORLDSIZE_NODE_COUNT"] == "2"
        assert each["SLURM_JOB_ID"].isdigit() and each["SLURM_JOB_ID"] != "5"
        assert "SLURM_TASKS_PER_NODE" not in each and "PMI_RANK" not in each
        assert each["PYTHONUNBUFFERED"] == "1" and int(each["OMP_NUM_THREADS"]) >= 1
        assert each["PWD"].endswith("/code") or place.fetches_outputs
        unset = {
            "AZ_BATCHAI_MPI_MASTER_NODE",
            "AZ_BATCH_MASTER_NODE",
            "SLURM_GPUS_ON_NODE",
            *OF_A_FRAMEWORK,
            *OF_SLURM_ITSELF,
            *OF_A_DEBUGGER,
            *OF_A_REHEARSAL,
            *OF_DATA_PARALLEL,
        }
        ours = {row.name for row in VARIABLES if row.convention in ("worldsize", *CONVENTIONS)}
        assert {name for name in ours if "ARRAY" not in name} - unset <= set(each)
    for name in ("MASTER_ADDR", "MASTER_PORT", "WORLDSIZE_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_NODELIST"):
        assert len({each[name] for each in ranks}) == 1, name
    assert ranks[0]["MASTER_ADDR"] not in ("localhost", "") and int(ranks[0]["MASTER_PORT"]) > 1023


def test_conventions_can_be_narrowed(place: Place) -> None:
    place.job("env -0 > outputs/env-$RANK", conventions=["torch"])
    (each,) = environments(place, place.run("job.yml"), 1)
    others = {row.name for row in VARIABLES if row.convention in set(CONVENTIONS) - {"torch"}}
    assert "MASTER_ADDR" in each and not others & set(each)


def test_the_job_has_the_last_word_on_what_is_not_a_rank_variable(place: Place) -> None:
    place.job(
        "env -0 > outputs/env-$RANK", environment_variables={"OMP_NUM_THREADS": 5, "PYTHONUNBUFFERED": "", "A": "x y"}
    )
    (each,) = environments(place, place.run("job.yml"), 1)
    assert (each["OMP_NUM_THREADS"], each["PYTHONUNBUFFERED"], each["A"]) == ("5", "", "x y")


def test_the_head_can_be_reached_at_the_port_that_is_given(place: Place) -> None:
    place.write(
        "meet.py",
        "import os, socket, time\n"
        "address = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])\n"
        "if os.environ['RANK'] == '0':\n"
        "    server = socket.create_server(address)\n"
        "    print(sorted(server.accept()[0].recv(9).decode() for _ in range(3)))\n"
        "else:\n"
        "    deadline = time.monotonic() + 20\n"
        "    while True:\n"
        "        try:\n"
        "            socket.create_connection(address).sendall(os.environ['RANK'].encode())\n"
        "            break\n"
        "        except ConnectionRefusedError:\n"
        "            assert time.monotonic() < deadline\n"
        "            time.sleep(0.02)\n",
    )
    run = place.run("-w", "2x2", "--", "python", "meet.py")
    assert place.ok("logs", run, "--rank", "0", "--raw").out == "['1', '2', '3']\n"


WORDS = [
    "two words",
    'it\'s "so"',
    "a\nb",
    "$(echo no) `no` $HOME ${X} $$",
    "ü 数 🦊",
    "",
    "-",
    "*",
    "a\\b\t|&;<>()!#~",
]


def test_words_and_values_arrive_as_they_are(place: Place) -> None:
    place.write(
        "args.py",
        "import json, os, sys\n"
        "json.dump([sys.argv[1:], os.environ['VALUE']], open('outputs/args-' + os.environ['RANK'], 'w'))\n",
    )
    value = "\n".join(WORDS)
    setting = "environment_variables.VALUE=" + json.dumps(value, ensure_ascii=False)
    run = place.run("-w", "2x1", "--set", setting, "--", "python", "args.py", *WORDS)
    for rank in (0, 1):
        assert json.loads(place.read_output(run, "args-%d" % rank)) == [WORDS, value]


def test_the_ranks_run_in_a_snapshot(place: Place) -> None:
    """Check that ranks run in a snapshot, taken at submission, of all files that are not ignored, and do not see later
    changes."""
    place.write("src/deep/data.txt", "old")
    place.write("src/.amlignore", "*.bin\n")
    place.write("src/large.bin", "x")
    script = place.write("src/tool.sh", "#!/bin/sh\ncat deep/data.txt\n")
    os.chmod(script, 0o755)
    place.job(place.gate("go") + "; ./tool.sh; ls", code="./src")
    run = place.submit("job.yml")
    place.write("src/deep/data.txt", "new")
    place.open_gate(run, "go")
    assert place.wait_for_end(run)["state"] == "SUCCEEDED"
    assert place.ok("logs", run, "--raw").out.split() == ["olddeep", "logs", "outputs", "tool.sh"]


def test_a_job_without_code_runs_in_an_empty_directory(place: Place) -> None:
    place.job("ls -A")
    run = place.run("job.yml")
    assert place.ok("logs", run, "--raw").out == "logs\noutputs\n"


def test_what_is_left_behind(place: Place) -> None:
    outputs = {"model": {"type": "uri_folder"}, "report": {"type": "uri_file"}}
    place.job(
        "echo w > ${{outputs.model}}/w; echo r > $WORLDSIZE_OUTPUT_REPORT; echo o > outputs/o; echo l > logs/l",
        outputs=outputs,
    )
    run = place.run("job.yml")
    place.fetch_outputs(run)
    found = place.open(run).outputs
    with open(os.path.join(found.model.path, "w")) as file:
        assert file.read() == "w\n"
    with open(found["report"].path) as file:
        assert file.read() == "r\n"
    assert place.read_output(run, "o") == "o\n" and place.read(run, "user_logs", "l") == "l\n"


def test_what_is_written_is_listed_and_fetched(place: Place) -> None:
    """Check the list of written files and the fetch of them. Files in the working directory are included if the nodes
    share it with this machine."""
    place.write("kept.txt", "as it was\n")
    lines = ("echo o > outputs/o", "mkdir -p logs/a", "echo l > logs/a/l", "echo w > $RANK.csv")
    place.job("; ".join(lines), "2x1")
    run = place.run("job.yml")
    found = {(file["path"], file["bytes"], file["where"]) for file in place.json("outputs", run)}
    here = set() if place.fetches_outputs else {("%d.csv" % rank, 2, "workdir") for rank in range(2)}
    assert found == {("outputs/o", 2, "outputs"), ("logs/a/l", 2, "workdir")} | here
    assert os.path.samefile(place.ok("path", run, "outputs").out.strip(), place.path(run, "outputs"))
    folder = os.path.join(place.root, "elsewhere")
    fetched = place.ok("fetch", run, "[lo]", "--to", folder).lines
    assert sorted(fetched) == [os.path.join(folder, name) for name in ("logs/a/l", "outputs/o")]
    assert {Path(path).read_text() for path in fetched} == {"l\n", "o\n"}
    assert place("fetch", run, "none", "--to", folder).code != 0


def test_inputs_by_path_and_by_value(place: Place) -> None:
    place.write("data set/x.txt", "content")
    inputs = {"data": {"type": "uri_folder", "path": "data set"}, "lr": 0.5, "words": "a b"}
    place.job(
        'cat "${{inputs.data}}/x.txt"; printf "[%s]" ${{inputs.words}} "$WORLDSIZE_INPUT_WORDS" ${{inputs.lr}}',
        inputs=inputs,
    )
    run = place.run("job.yml")
    assert place.ok("logs", run, "--raw").out == "content[a][b][a b][0.5]"


@pytest.mark.parametrize("share", [None, "group"])
def test_who_may_read_a_run(place: Place, share: str | None) -> None:
    place.job("echo x > outputs/x", **({"share": share} if share else {}))
    run = place.run("job.yml")
    names = ("", "plan.json", "handle.json", "result.json", "attempt-0/logs/rank-00000.log", "outputs")
    for name in names:
        mode = stat.S_IMODE(os.stat(place.path(run, name)).st_mode)
        assert not mode & 0o007 and bool(mode & 0o040) == bool(share), (name, oct(mode))
    if place.fetches_outputs:
        return
    mode = stat.S_IMODE(os.stat(place.path(run, "outputs", "x")).st_mode)  # written by a rank, below these directories
    assert mode & 0o062 == 0o040 or not share, oct(mode)
