"""The Python surface, as the guides' samples and notebooks use it: in programs of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from driver import Cli, wait_for

from worldsize.wings.python_surface.inrank.rank_info import rank_info

TRAIN = """
import argparse, os
parser = argparse.ArgumentParser()
for name, kind in (("data-dir", str), ("epochs", int), ("batch-size", int), ("workers", int),
                   ("learning-rate", float), ("momentum", float), ("print-freq", int), ("model-dir", str)):
    parser.add_argument("--" + name, type=kind, required=True)
args = parser.parse_args()
batch = open(os.path.join(args.data_dir, "data_batch_1")).read()
os.makedirs(args.model_dir, exist_ok=True)
open(os.path.join(args.model_dir, "model-%s" % os.environ["RANK"]), "w").write(batch)
place = os.environ["RANK"], os.environ["WORLD_SIZE"]
print("rank %s of %s: %d epochs at %g" % (*place, args.epochs, args.learning_rate))
"""

AZURE_PYTORCH = """
from worldsize import command
from worldsize import Data
from worldsize import Input
from worldsize import Output
from worldsize import AssetTypes
from worldsize import submit

download = command(
    command="echo cifar > ${{outputs.cifar}}/data_batch_1",
    outputs={"cifar": Output(type=AssetTypes.URI_FOLDER)},
    compute="local",
)
returned_job = submit(download)
assert returned_job.wait() == "SUCCEEDED"

inputs = {
    "cifar": Input(
        type=AssetTypes.URI_FOLDER, path=returned_job.outputs.cifar.path
    ),  # path="azureml:azureml_stoic_cartoon_wgb3lgvgky_output_data_cifar:1"),
    "epoch": 10,
    "batchsize": 64,
    "workers": 2,
    "lr": 0.01,
    "momen": 0.9,
    "prtfreq": 200,
    "output": "./outputs",
}

job = command(
    code="./src",  # local path where the code is stored
    command="python train.py --data-dir ${{inputs.cifar}} --epochs ${{inputs.epoch}} --batch-size ${{inputs.batchsize}} --workers ${{inputs.workers}} --learning-rate ${{inputs.lr}} --momentum ${{inputs.momen}} --print-freq ${{inputs.prtfreq}} --model-dir ${{inputs.output}}",
    inputs=inputs,
    environment="azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6",
    compute="local",  # Change the name to the gpu cluster of your workspace.
    instance_count=2,  # In this, only 2 node cluster was created.
    distribution={
        "type": "PyTorch",
        # set process count to the number of gpus per node
        # NV6 has only 1 GPU
        "process_count_per_instance": 1,
    },
)
"""  # noqa: E501

AZURE_TENSORFLOW = """
from worldsize import TensorFlowDistribution, PyTorchDistribution, command, submit

# create the command
job = command(
    code="./src",  # local path where the code is stored
    command="python main.py --epochs ${{inputs.epochs}} --model-dir ${{inputs.model_dir}}",
    inputs={"epochs": 1, "model_dir": "outputs/keras-model"},
    environment="AzureML-tensorflow-2.4-ubuntu18.04-py37-cuda11-gpu@latest",
    compute="local",
    instance_count=2,
    # distribution = {"type": "mpi", "process_count_per_instance": 1},
    distribution={
        "type": "tensorflow",
        "parameter_server_count": 1,
        "worker_count": 2,
        "added_property": 7,
    },
    # distribution = {
    #        "type": "pytorch",
    #        "process_count_per_instance": 4,
    #        "additional_prop": {"nested_prop": 3},
    #    },
    display_name="tensorflow-mnist-distributed-example"
    # experiment_name: tensorflow-mnist-distributed-example
    # description: Train a basic neural network with TensorFlow on the MNIST dataset, distributed via TensorFlow.
)
"""


def python(cli: Cli, program: str, code: int = 0, **environ: str) -> str:
    """What a program prints, run in the project; with `code` other than 0, its stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(program)],
        cwd=cli.project,
        env={**cli.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done
    return done.stderr if code else done.stdout


def told(cli: Cli, program: str, **environ: str) -> Any:
    """The JSON that a program prints."""
    return json.loads(python(cli, program, **environ))


def test_the_azure_guides_pytorch_sample(cli: Cli) -> None:
    cli.write("src/train.py", TRAIN)
    program = """
    run = submit(job)
    run.wait()
    import json, os
    print(json.dumps([run.status, run.logs(rank=1), run.logs(), sorted(os.listdir(run.outputs.path)), run.id]))
    """
    status, rank, merged, files, run = told(cli, AZURE_PYTORCH + textwrap.dedent(program))
    assert status == "SUCCEEDED"
    assert rank == "rank 1 of 2: 10 epochs at 0.01\n"
    assert sorted(merged.splitlines()) == ["0:0: rank 0 of 2: 10 epochs at 0.01", "1:1: rank 1 of 2: 10 epochs at 0.01"]
    assert files == ["model-0", "model-1"]
    assert cli.read(run, "outputs", "model-1") == "cifar\n"
    assert cli.json("status")["nodes"] == 2


def test_the_azure_guides_tensorflow_sample_builds_and_runs(cli: Cli) -> None:
    cli.write("src/main.py", "import json, os; json.loads(os.environ['TF_CONFIG'])['cluster']['worker']")
    program = AZURE_TENSORFLOW + textwrap.dedent("""
    built, warnings = job.build()
    print(warnings)
    print(submit(job).wait())
    """)
    said = python(cli, program)
    assert "SUCCEEDED" in said
    assert "added_property" in said
    typed = AZURE_TENSORFLOW + "job.distribution = TensorFlowDistribution(parameter_server_count=1, worker_count=2)\n"
    assert "added_property" not in python(cli, typed + "print(job.build())\n")


def test_the_distribution_may_be_set_afterwards(cli: Cli) -> None:
    cli.write("src/main.py", "import os; print(os.environ['RANK'])")
    program = AZURE_TENSORFLOW + textwrap.dedent("""
    job.distribution = PyTorchDistribution(process_count_per_instance=2)
    run = submit(job)
    run.wait(check=True)
    print(run.logs(rank=3))
    """)
    assert python(cli, program).split() == ["3"]


def test_a_named_output_is_the_next_jobs_input(cli: Cli) -> None:
    program = """
    from worldsize import Input, Output, command, submit
    first = submit(command(command="echo weights > ${{outputs.model}}/w", outputs={"model": Output()}))
    first.wait(check=True)
    path = first.outputs["model"].path
    second = submit(command(command="cat ${{inputs.model}}/w", inputs={"model": Input(path=path)}))
    second.wait(check=True)
    print(second.logs(rank=0).strip(), path == first.outputs.model.path, list(first.outputs), len(second.outputs))
    """
    assert python(cli, program) == "weights True ['model'] 0\n"


def test_what_a_run_is_asked(cli: Cli) -> None:
    program = """
    import json, os, worldsize
    from worldsize import RunFailed, command, submit
    run = submit(command(argv=["sh", "-c", "test $RANK = 1 && sleep 60; echo out; echo err >&2; exit 3"]), world="1x2")
    out = [run.wait(), run.status, run.summary()["exit_code"], run.logs(rank=0)]
    try:
        run.wait(check=True)
    except RunFailed as error:
        out += [error.exit_code, str(error)]
    try:
        run.logs(rank=2)
    except worldsize.WorldsizeError as error:
        out += [str(error)]
    out += [worldsize.open_run(which).id == run.id for which in (None, run.id, run.directory)]
    print(json.dumps(out))
    """
    out = told(cli, program)
    assert out[:5] == ["FAILED", "FAILED", 3, "out\nerr\n", 3]
    assert "rank" in out[5] and "ranks are 0 to 1" in out[6]
    assert out[7:] == [True, True, True]


def test_waiting_has_a_limit_and_cancelling_none(cli: Cli) -> None:
    program = """
    import time
    from worldsize import command, submit
    run = submit(command(command="sleep 60"))
    began = time.monotonic()
    try:
        run.wait(timeout=0.3)
    except TimeoutError as error:
        print(str(error).startswith("run %s is still " % run.id), time.monotonic() - began < 30)
    run.cancel()
    run.cancel()
    print(run.wait(), run.cancel().state, run.look().exit_code)
    """
    assert python(cli, program).split() == ["True", "True", "CANCELLED", "CANCELLED", "130"]


def test_mistakes_are_told_at_once_and_create_nothing(cli: Cli) -> None:
    program = """
    from worldsize import WorldsizeError, command, submit, load_job
    for make in (
        lambda: command(comand="x"),
        lambda: submit(command(command="python nowhere.py ${{inputs.x}}")),
        lambda: submit(command(command="true", instance_count=0)),
        lambda: submit(command(command="true", compute="gpu-cluster")),
        lambda: submit(command(command="true"), world="2y2"),
        lambda: submit(command()),
        lambda: submit(7),
        lambda: submit("job.yml"),
        lambda: load_job("job.yml"),
    ):
        try:
            make()
        except WorldsizeError as error:
            print(error.exit_code, str(error).replace("\\n", " "))
    """
    lines = python(cli, program).splitlines()
    assert len(lines) == 9 and all(line.startswith("2 ") for line in lines)
    assert "'command'" in lines[0] and "gpu-cluster" in lines[3]
    assert not os.path.exists(cli.home)


def test_a_job_file_by_its_path(cli: Cli) -> None:
    cli.write("jobs/job.yml", "command: cat data.txt\ncode: .\n")
    cli.write("jobs/data.txt", "here")
    program = """
    import pathlib
    from worldsize import load_job, submit
    for job in ("jobs/job.yml", pathlib.Path("jobs/job.yml"), load_job("jobs/job.yml")):
        run = submit(job)
        run.wait(check=True)
        print(run.logs(rank=0), end=" ")
    """
    assert python(cli, program).split() == ["here"] * 3


def test_an_output_at_a_uri_is_the_runs_own(cli: Cli) -> None:
    program = """
    import os
    from worldsize import Output, command, submit
    where = "azureml://datastores/a/paths/b"
    run = submit(command(command="echo x > ${{outputs.model}}/f", outputs={"model": Output(path=where)}))
    run.wait()
    print(run.outputs.model.path == os.path.join(run.directory, "outputs", "model"), os.listdir(run.outputs.model.path))
    """
    assert python(cli, program) == "True ['f']\n"


def test_ranks_know_their_place(cli: Cli) -> None:
    script = """
    import os, time, worldsize
    info = worldsize.rank_info()
    if worldsize.once_per_node():
        print("prepares", info.node_rank)
    with worldsize.once_per_node() as mine:
        if mine:
            time.sleep(0.2)
            open("outputs/data-%d" % info.node_rank, "w").close()
    assert os.path.exists("outputs/data-%d" % info.node_rank)
    print(tuple(info))
    """
    cli.write("train.py", textwrap.dedent(script))
    result = cli.ok("run", "-w", "2x2", "--fold", "off", "--", "python", "train.py")
    lines = sorted(line.split(": ", 1)[1] for line in result.lines)
    places = ["(%d, 4, %d, 2, %d, 2)" % (rank, rank % 2, rank // 2) for rank in range(4)]
    assert lines == [*places, "prepares 0", "prepares 1"]
    outside = python(cli, "import worldsize; print(tuple(worldsize.rank_info()), bool(worldsize.once_per_node()))")
    assert outside == "(0, 1, 0, 1, 0, 1) True\n"
    with pytest.raises(ValueError, match=r"^RANK is not a number: 'x'$"):
        rank_info({"RANK": "x"})


def test_two_submits_in_one_process(cli: Cli) -> None:
    """The first run is nobody's hostage, ended conductors do not stay as zombies, and files are not shared."""
    program = """
    import os, time
    from worldsize import command, submit
    first = submit(command(command="while ! test -e outputs/go; do sleep 0.05; done; echo first"))
    second = submit(command(command="echo second"))
    print(second.wait(), second.logs(rank=0).strip())
    print(first.status in ("STARTING", "RUNNING"))
    open(os.path.join(first.outputs.path, "go"), "w").close()
    print(first.wait(), first.logs(rank=0).strip())
    deadline = time.monotonic() + 5
    def zombies():
        first.compute.observe([__import__("json").load(open(r.paths.handle)) for r in (first, second)])
        with open("/proc/self/task/%d/children" % os.getpid()) as file:
            return file.read().split()
    while zombies() and time.monotonic() < deadline:
        time.sleep(0.02)
    print(zombies())
    """
    assert python(cli, program).split("\n")[:4] == ["SUCCEEDED second", "True", "SUCCEEDED first", "[]"]


def test_a_run_outlives_the_program_that_submitted_it(cli: Cli) -> None:
    program = """
    from worldsize import command, submit
    print(submit(command(command="while ! test -e outputs/go; do sleep 0.05; done; echo done")).id)
    """
    run = python(cli, program).strip()
    assert cli.status(run)["state"] in ("STARTING", "RUNNING")
    open(cli.path(run, "outputs", "go"), "w").close()
    assert cli("wait", run).code == 0
    assert cli.ok("logs", run).out == "0:0: done\n"


def test_submit_beside_threads_that_hold_locks(cli: Cli) -> None:
    """As in a notebook: other threads print, log, import and allocate while a run is started, forty times."""
    program = """
    import importlib, io, json, logging, sys, threading, time
    from worldsize import command, submit
    logging.basicConfig(stream=io.StringIO())
    going, lock = True, threading.Lock()
    def busy(act):
        while going:
            with lock:
                act()
    def importing():
        sys.modules.pop("this_is_slow", None)
        for name in ("colorsys", "calendar", "wave"):
            sys.modules.pop(name, None)
            importlib.import_module(name)
    acts = (lambda: logging.warning("x"), lambda: sys.stderr.write(""), importing, lambda: bytearray(1 << 20),
            lambda: time.sleep(0.001))
    threads = [threading.Thread(target=busy, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    try:
        runs = [submit(command(command="echo $RANK")) for _ in range(8)]
        states = [run.wait(timeout=40) for run in runs]
        found = []
        job = command(command="echo from a thread")
        worker = threading.Thread(target=lambda: found.append(submit(job, world="2x1")))
        worker.start()
        worker.join()
        found[0].wait(timeout=40)
    finally:
        going = False
    print(json.dumps([states, found[0].status, found[0].logs(rank=1)]))
    """
    states, status, text = told(cli, program)
    assert states == ["SUCCEEDED"] * 8
    assert (status, text) == ("SUCCEEDED", "from a thread\n")


def test_nothing_of_the_program_is_kept_open(cli: Cli) -> None:
    """A port that the program listened on, and its pipes, are free when it ends, though its run goes on."""
    program = """
    import os, socket, sys
    from worldsize import command, submit
    server = socket.create_server(("127.0.0.1", 0))
    reading, writing = os.pipe()
    if len(sys.argv) > 1 or %r:
        import threading
        threading.Thread(target=lambda: __import__("time").sleep(60), daemon=True).start()
    run = submit(command(command="while ! test -e outputs/go; do sleep 0.05; done"))
    pid = os.fork()
    print(run.id, server.getsockname()[1])
    """
    for threaded in (False, True):
        out = python(cli, (program % threaded).replace("    pid = os.fork()\n", ""))
        run, port = out.split()
        script = "import socket; socket.create_server(('127.0.0.1', %s)).close()" % port
        python(cli, script)
        open(cli.path(run, "outputs", "go"), "w").close()
        assert cli("wait", run).code == 0


def test_ctrl_c_in_the_program_does_not_reach_the_run(cli: Cli) -> None:
    program = """
    import os, signal, time
    from worldsize import command, submit
    os.setpgrp()
    run = submit(command(command="while ! test -e outputs/go; do sleep 0.05; done; echo went on"))
    try:
        os.killpg(0, signal.SIGINT)
        time.sleep(5)
    except KeyboardInterrupt:
        print(run.id)
    """
    run = python(cli, program).strip()
    assert cli.status(run)["state"] in ("STARTING", "RUNNING")
    open(cli.path(run, "outputs", "go"), "w").close()
    assert cli("wait", run).code == 0


def test_importing_costs_nothing_and_names_are_all_there(cli: Cli) -> None:
    program = """
    import sys
    before = set(sys.modules)
    import worldsize
    new = set(sys.modules) - before
    print(sorted(name for name in new if name.split(".")[0] not in sys.stdlib_module_names), "subprocess" in new)
    for name in worldsize.__all__:
        assert getattr(worldsize, name) is not None, name
    try:
        worldsize.nothing
    except AttributeError as error:
        print(error)
    """
    lines = python(cli, program).splitlines()
    assert lines[0] == "['worldsize'] False" and "nothing" in lines[1]


def test_outputs_of_a_run_can_be_pickled_and_copied(cli: Cli) -> None:
    """Frameworks copy what they are given; attribute access must not run in circles."""
    program = """
    import copy, pickle
    from worldsize import Output, command, submit
    run = submit(command(command="true", outputs={"model": Output()}))
    run.wait()
    outputs = pickle.loads(pickle.dumps(run.outputs))
    print(outputs.model.path == copy.deepcopy(run.outputs)["model"].path == run.outputs.model.path)
    print(hasattr(run.outputs, "modle"))
    """
    assert python(cli, program).split() == ["True", "False"]
    wait_for(lambda: not cli.processes())
