"""Job files: every key of a commandJob is read, and whatever is wrong is said with file, line and key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from job_strategies import FULL, WRONG_KEYS

from worldsize.errors import JobError
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Input, Job, Limits, LoadedJob, Output, Resources
from worldsize.jobspec.reading.job_file import load_job, parse_job


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedJob:
    path = tmp_path / "jobs" / "job.yml"
    path.parent.mkdir()
    path.write_text(FULL)
    return load_job(str(path))


def test_every_key_of_a_job_is_read(loaded: LoadedJob, tmp_path: Path) -> None:
    assert loaded.job == Job(
        command="python train.py --data ${{inputs.data}} --lr ${{inputs.lr}}",
        code=str(tmp_path / "jobs" / "src"),
        name="mnist-1",
        display_name="MNIST on two nodes",
        experiment_name="mnist",
        description="Several\nlines.\n",
        tags={"team": "vision", "version": "1.0", "empty": ""},
        properties={"origin": "guide"},
        environment="azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6",
        environment_variables={
            "NCCL_DEBUG": "INFO",
            "DEBUG": "true",
            "RATE": "1.50",
            "MODE": "010",
            "DAY": "2024-01-01",
            "EMPTY": "",
        },
        distribution=PyTorchDistribution(2),
        compute="azureml:gpu-cluster",
        resources=Resources(
            instance_count=2,
            instance_type="STANDARD_NC6",
            shm_size="2g",
            docker_args=("--ipc=host", "--shm-size 4g"),
            locations=("westeurope",),
            max_instance_count=4,
            properties={"AISuperComputer": {"interactive": True}},
        ),
        limits=Limits(3600),
        inputs={
            "data": Input("uri_folder", str(tmp_path / "data"), "ro_mount"),
            "store": Input("uri_folder", "azureml://datastores/a/paths/b"),
            "maybe": Input("uri_file", None, optional=True),
            "lr": 0.1,
            "count": 8,
            "on_": True,
            "day": "2024-01-01",
            "text": "two words",
            "huge": float("inf"),
        },
        outputs={"model": Output("custom_model", "rw_mount", None, "best", "3"), "log": Output()},
        queue_settings={"job_tier": "spot", "priority": "medium"},
        services={"board": {"type": "tensor_board", "log_dir": "logs", "nodes": "all", "port": 6006}},
        identity={"type": "user_identity"},
        parent_job_name="sweep_7",
        conventions=("torch", "azureml"),
        grace=5,
        threads=4,
        bind="none",
        share="group",
        share_gpus=True,
        modules=("gcc/12", "cuda/12.4"),
        setup=("ulimit -n 4096",),
        slurm={
            "partition": ("gpu", "big"),
            "time": "1:30:00",
            "gpus_per_node": "4",
            "requeue": False,
            "exclusive": "true",
        },
        hpcpack={"node_group": "GPU", "nodes": ("n1", "n2"), "exclusive": True, "priority": "Highest"},
        source=str(tmp_path / "jobs" / "job.yml"),
    )


def test_extras_under_distribution_warn_with_their_line(loaded: LoadedJob) -> None:
    source = loaded.job.source
    assert "%s:26: distribution.added_property: is not a key of pytorch; ignored" % source in loaded.warnings


def test_every_key_knows_its_line(loaded: LoadedJob) -> None:
    assert loaded.lines["command"] == 11
    assert loaded.lines["environment_variables.DEBUG"] == 18
    assert loaded.where("environment_variables.DEBUG") == "%s:18" % loaded.job.source
    assert loaded.where("environment_variables.WORLD_SIZE") == "%s:16" % loaded.job.source
    assert loaded.where("grace.x") == "%s:56" % loaded.job.source
    assert loaded.where("nothing") == loaded.job.source


def test_a_relative_job_file_starts_its_paths_in_its_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yml").write_text("command: x\ncode: .\ninputs: {a: {path: file:../d/}, b: {path: ~/x}}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    job = load_job("jobs/job.yml").job
    assert job.code == str(tmp_path / "jobs")
    assert job.inputs == {"a": Input(path=str(tmp_path / "d")), "b": Input(path="/home/me/x")}
    assert job.source == "jobs/job.yml"


@pytest.mark.parametrize(
    "path",
    ["azureml:cifar:1", "azureml://datastores/x/paths/y", "https://host/a", "abfss://c@h/p", "wasbs://c@h/p", "/abs/x"],
)
def test_what_is_not_a_local_relative_path_is_left_alone(path: str) -> None:
    job = parse_job("command: x\ncode: %s\ninputs: {a: {path: '%s'}}" % (path, path), "/somewhere/job.yml").job
    assert (job.code, job.inputs) == (path, {"a": Input(path=path)})


def test_environments() -> None:
    def environment(text: str) -> object:
        return parse_job("command: x\nenvironment: %s" % text, "/p/job.yml").job.environment

    assert environment("file:env.yml") == "file:/p/env.yml"
    assert environment("azureml:a@latest") == "azureml:a@latest"
    assert environment("azureml://registries/azureml/environments/a/versions/1")
    assert environment("{image: ubuntu, conda_file: ../env.yml, version: 1}") == {
        "image": "ubuntu",
        "conda_file": "/env.yml",
        "version": "1",
    }
    assert environment("{conda_file: {name: a, dependencies: [python=3.11]}, build: {path: docker}}") == {
        "conda_file": {"name": "a", "dependencies": ["python=3.11"]},
        "build": {"path": "/p/docker"},
    }


def test_exact_words_stand_in_place_of_a_command() -> None:
    job = parse_job("argv: [python, 'a b.py', '']", "job.yml").job
    assert job.argv == ("python", "a b.py", "")
    assert job.command == "python 'a b.py' ''"


def test_anchors_and_merge_keys_are_read_as_yaml_says() -> None:
    inputs = ["a: &d {type: uri_file, path: /d}", "b: {<<: *d, mode: direct}", "c: {<<: [*d], path: /e}"]
    job = parse_job("command: x\ninputs:\n  %s\n" % "\n  ".join(inputs), "job.yml").job
    assert job.inputs == {
        "a": Input("uri_file", "/d"),
        "b": Input("uri_file", "/d", "direct"),
        "c": Input("uri_file", "/e"),
    }


def test_a_byte_order_mark_and_windows_lines_are_fine() -> None:
    assert parse_job(b"\xef\xbb\xbfcommand: x\r\ngrace: 1\r\n", "job.yml").job.grace == 1
    assert parse_job("\ufeffcommand: x", "job.yml").job.command == "x"


NOT_A_JOB = [
    (b"", "job.yml", "is empty"),
    (b"# only words\n", "job.yml", "is empty"),
    (b"---\n...\n", "job.yml", "is empty"),
    (b"just text", "job.yml:1", "expected a mapping of keys"),
    (b"- command: x\n", "job.yml:1", "expected a mapping of keys"),
    (b"\x7fELF\x02\x01\x01\x00\x00", "job.yml", "binary"),
    (b"PK\x03\x04\x00\x00\xff", "job.yml:1", "not UTF-8"),
    (b"command: x\nname: caf\xe9\n", "job.yml:2", "not UTF-8 text (byte 20)"),
    ("command: ü".encode("utf-16"), "job.yml:1", "not UTF-8"),
    (b"command: x\nname: a\x07b\n", "job.yml:2", "does not allow"),
    (b"command: 'x\n", "job.yml:2", "not YAML, column 1"),
    (b"command: x\n\tname: y\n", "job.yml:2", "spaces, not tabs"),
    (b"command: x\n name: y\n", "job.yml:2", "not YAML"),
    (b"command: [x\n", "job.yml:2", "not YAML"),
    (b"command: *x\n", "job.yml:1", "undefined alias"),
    (b'command: "\\UFFFFFFFF"\n', "job.yml:1", "is not a character"),
    (b"%YAML 7.0\n---\ncommand: x\n", "job.yml:1", "not YAML"),
    (b"command: x\n---\ncommand: y\n", "job.yml:2", "second document"),
    (b"command: x\ngrace: 1\n\ncommand: y\n", "job.yml:4", "occurs twice: here and on line 1"),
    (b"command: x\ninputs:\n  a: 1\n  a: 2\n", "job.yml:4", "occurs twice: here and on line 3"),
    (b"command: x\n1: y\n", "job.yml:2", "the key 1 is not text"),
    (b"command: x\nenvironment_variables: {NO: x}\n", "job.yml:2", "the key NO is not text"),
    (b"command: x\n? [a]\n: y\n", "job.yml:2", "a key that is not text"),
    (b"command: x\n? \n: y\n", "job.yml:2", "is not text"),
    (b"command: !!python/object/apply:os.system [ls]\n", "job.yml:1", "not allowed"),
    (b"command: !!python/name:os.system\n", "job.yml:1", "not allowed"),
    (b"command: !mine x\n", "job.yml:1", "not allowed"),
    (b"command: x\nslurm: !!set {a, b}\n", "job.yml:2", "not allowed"),
    (b"command: x\nslurm: {a: !!binary aGk=}\n", "job.yml:2", "not allowed"),
    (b"command: x\ngrace: !!int abc\n", "job.yml:2", "not a value of the type int"),
    (b"command: x\ngrace: !!bool maybe\n", "job.yml:2", "not a value of the type bool"),
    (b"command: x\ninputs: {a: %s}\n" % (b"9" * 5000), "job.yml:2", "write it in quotes"),
    (b"command: x\ninputs: {a: 0b_}\n", "job.yml:2", "write it in quotes"),
    (b"command: x\nslurm: &a {b: *a}\n", "job.yml:2", "contains itself"),
    (b"command: x\nslurm: " + b"[" * 3000, "job.yml:2", "nested more than"),
    (b"command: x\nslurm: " + b"{a: " * 3000, "job.yml:2", "nested more than"),
    (b"command: x\n<<: 3\n", "job.yml:2", "<< takes a mapping"),
    (b"type: pipeline\njobs: {a: {command: x}}\n", "job.yml:1", "a pipeline job cannot be run here"),
    (b"jobs: {a: {command: x}}\n", "job.yml:1", "a pipeline job cannot be run here"),
    (b"type: sweep\ntrial: x\n", "job.yml:1", "a sweep job cannot be run here"),
]


@pytest.mark.parametrize(("data", "where", "message"), NOT_A_JOB)
def test_what_is_not_a_job_file_at_all(data: bytes, where: str, message: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job(data, "job.yml")
    assert caught.value.where == where
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("line", "message", "nearest"), WRONG_KEYS)
def test_a_wrong_word_is_named_with_the_nearest_right_one(line: str, message: str, nearest: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job("command: x\n%s\n" % line, "job.yml")
    assert caught.value.where == "job.yml:2"
    assert message in caught.value.what
    assert caught.value.hint == "did you mean %r?" % nearest


WRONG_VALUES = [
    ("inputs: {x: {type: uri_file, path: 'http://[anna'}}", "inputs.x.path: is not a readable address"),
    ("name: 3", "name: expected text, found 3 (a whole number)"),
    ("name: ../x", "is not a job's name"),
    ("name: ''", "name: is empty"),
    ("code: ''", "code: is empty"),
    ("code: [a]", "code: expected text, found a list"),
    ("description: yes", "expected text, found yes (a boolean)"),
    ("command: ''", "command: is empty"),
    ("command: '  '", "command: is empty"),
    ("command: ", "command: is missing"),
    ("command: 3", "command: expected text"),
    ('command: "a\\0b"', "command: holds a NUL byte"),
    ('command: "a\\uD800b"', "command: holds a character that cannot be encoded"),
    ("{}", "command: is missing"),
    ("argv: []", "argv: has no program"),
    ("argv: ['', a]", "argv: has no program"),
    ("argv: ls", "argv: expected a list of texts"),
    ("argv: [ls, 3]", "argv[1]: expected text, found 3"),
    ("{argv: [ls], command: ls}", "argv: cannot be combined with command"),
    ("resources: 2", "resources: expected a mapping of keys"),
    ("watchdog: 300", "watchdog: expected a mapping of keys, found 300 (a whole number); its keys: timeout, action"),
    ("resources: {instance_count: 0}", "resources.instance_count: is 0, must be at least 1"),
    ("resources: {instance_count: -1}", "is -1, must be at least 1"),
    ("resources: {instance_count: 2.5}", "expected a whole number, found 2.5"),
    ("threads: '2'", "write it without quotes"),
    ("resources: {instance_count: 1e9}", "expected a whole number"),
    ("resources: {instance_count: 1000001}", "must be at most 1000000"),
    ("resources: {docker_args: 3}", "resources.docker_args: expected text"),
    ("resources: {locations: here}", "resources.locations: expected a list of texts"),
    ("limits: {timeout: 0}", "limits.timeout: is 0, must be more than 0"),
    ("limits: {timeout: -5}", "limits.timeout: is -5, must be more than 0"),
    ("limits: {timeout: .nan}", "must be more than 0"),
    ("limits: {timeout: .inf}", "must be at most"),
    ("limits: {timeout: true}", "expected a number, found true"),
    ("grace: -1", "grace: is -1, must be at least 0"),
    ("threads: 0", "threads: is 0, must be at least 1"),
    ("share_gpus: 1", "share_gpus: expected true or false, found 1"),
    ("share: all", "share: 'all' is not one of the allowed values"),
    ("tags: [a]", "tags: expected a mapping of keys, found a list"),
    ("tags: {a: [b]}", "tags.a: expected text, found a list"),
    ("environment_variables: {A: [b]}", "environment_variables.A: expected text, found a list"),
    ("environment_variables: {'': x}", "environment_variables.: is not a name"),
    ("environment_variables: {'A=B': x}", "environment_variables.A=B: is not a name"),
    ("inputs: [a]", "inputs: expected a mapping of keys"),
    ("inputs: {a b: 3}", "inputs.a b: is not a name"),
    ("inputs: {../x: 3}", "inputs.../x: is not a name"),
    ("inputs: {a: }", "inputs.a: expected a literal or a mapping with a path, found nothing"),
    ("inputs: {a: [1]}", "inputs.a: expected a literal or a mapping with a path, found a list"),
    ("inputs: {a: {type: uri_file}}", "inputs.a.path: is missing; or set optional: true"),
    ("inputs: {a: {path: ''}}", "inputs.a.path: is empty"),
    ("inputs: {a: {path: x, optional: 1}}", "inputs.a.optional: expected true or false"),
    ('inputs: {a: "x\\0"}', "inputs.a: holds a NUL byte"),
    ("outputs: {a: x}", "outputs.a: expected a mapping of keys, found 'x' (text)"),
    ("outputs: {../../a: }", "is not a name"),
    ("distribution: pytorch", "distribution: expected a mapping of keys"),
    ("distribution: {process_count_per_instance: 2}", "distribution.type: is missing"),
    ("distribution: {type: pytorch, process_count_per_instance: 0}", "is 0, must be at least 1"),
    ("distribution: {type: pytorch, max_restarts: -1}", "is -1, must be at least 0"),
    ("environment: ''", "environment: is empty"),
    ("environment: [a]", "environment: expected text"),
    ("services: {a: 3}", "services.a: expected a mapping of keys"),
    ("slurm: gpu", "slurm: expected a mapping of keys"),
    ("type: 3", "type: expected text"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_VALUES)
def test_a_wrong_value_is_named_with_its_line(text: str, message: str) -> None:
    if not text.startswith(("command", "argv", "{")):
        text = "command: x\n" + text
    with pytest.raises(JobError) as caught:
        parse_job(text, "job.yml")
    error = caught.value
    assert error.where == "job.yml:%d" % (text.count("\n") + 1)
    assert message in (error.what if error.hint is None else "%s; %s" % (error.what, error.hint))


def test_more_ranks_than_the_limit_are_refused_as_a_product() -> None:
    text = (
        "command: x\nresources: {instance_count: 2000}\ndistribution: {type: none, process_count_per_instance: 2000}\n"
    )
    with pytest.raises(JobError, match="4000000 ranks") as caught:
        parse_job(text, "job.yml")
    assert caught.value.where == "job.yml:3"


def test_all_problems_are_told_at_once() -> None:
    text = "comand: x\nname: 12\nresources: {instanc_count: 2, instance_count: 0}\nlimits: {timeout: -1}\n"
    with pytest.raises(JobError) as caught:
        parse_job(text, "job.yml")
    assert caught.value.where == "job.yml:1"
    assert caught.value.what.splitlines() == [
        "6 problems",
        "  job.yml:1: comand: is not a key of a job; did you mean 'command'?",
        "  job.yml:2: name: expected text, found 12 (a whole number); write it in quotes",
        "  job.yml:3: resources.instanc_count: is not a key of resources; did you mean 'instance_count'?",
        "  job.yml:3: resources.instance_count: is 0, must be at least 1",
        "  job.yml:4: limits.timeout: is -1, must be more than 0",
        "  job.yml:1: command: is missing; set the command of each rank",
    ]


@pytest.mark.heavy
def test_a_thousand_problems_stay_readable() -> None:
    text = "command: x\n" + "".join("key%d: 1\n" % number for number in range(1000))
    with pytest.raises(JobError, match=r"(?s)1000 problems.*and 960 more"):
        parse_job(text, "job.yml")


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a: &a [%s]" % ",".join("x" * 10)]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append("%s: &%s [%s]" % (name, name, ",".join(["*" + before] * 10)))
    with pytest.raises(JobError, match="expand to more than 100000 values"):
        parse_job("\n".join(lines), "job.yml")


@pytest.mark.heavy
@pytest.mark.exhaustive
def test_a_file_of_too_many_values_is_refused() -> None:
    """Those that aliases make are of `test_an_alias_bomb_is_refused_at_once`."""
    with pytest.raises(JobError, match="more than 100000 values"):
        parse_job("slurm: [" + "1," * 120_000, "job.yml")


@pytest.mark.heavy
def test_a_file_of_too_many_bytes_is_refused() -> None:
    with pytest.raises(JobError, match="not a job file"):
        parse_job(b"# " + b"x" * (9 << 20), "job.yml")


def test_values_of_variables_are_not_repeated_in_messages() -> None:
    with pytest.raises(JobError) as caught:
        parse_job('command: x\nenvironment_variables: {TOKEN: [s3cret], KEY: "s3cret\\0"}', "job.yml")
    assert "s3cret" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="No such file") as caught:
        load_job(str(tmp_path / "none.yml"))
    assert caught.value.where == str(tmp_path / "none.yml")
    with pytest.raises(JobError, match="a directory"):
        load_job(str(tmp_path))
    for path in ("a\0b", "x" * 5000):
        with pytest.raises(JobError, match="cannot read"):
            load_job(path)
    fifo = tmp_path / "loop.yml"
    os.symlink(fifo, fifo)
    with pytest.raises(JobError, match="cannot read"):
        load_job(str(fifo))


def test_a_file_with_an_odd_name_is_read_and_named(tmp_path: Path) -> None:
    path = os.path.join(str(tmp_path), "a \udcff\n$(x).yml")
    with open(path, "w") as file:
        file.write("command: x\nbad: 1\n")
    with pytest.raises(JobError) as caught:
        load_job(path)
    assert str(caught.value).encode()
    assert "\n$(x)" not in str(caught.value.where)
