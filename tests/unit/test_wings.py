"""Each wing is a folder, most below `worldsize/wings`: without it, the tests of the core stay green, and what needs it
is one sentence."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from other_packages import write_package

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
WINGS = sorted(str(each.parent.relative_to(SOURCE)) for each in SOURCE.glob("worldsize/wings/*/__init__.py"))
WINGS.append("worldsize_hpcpack_simulator")
PYTEST = [
    "-m",
    "pytest",
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:schemathesis",
    "-m",
    "not slow and not timing",
]
NOT_OF_THE_CORE = ("tests/unit/wings", "tests/unit/test_wings.py", "tests/unit/testing")
CORE_TESTS = ("tests/unit", *map("--ignore=%s".__mod__, NOT_OF_THE_CORE))
QUICK = ("--tier", "fast")
MISSING = "%s is not part of this installation of worldsize"


def copy_without(wings, directory):
    """The sources without these wings, in a new `directory`. A package of its own cannot be imported from where it is
    installed, either."""
    shutil.copytree(SOURCE, directory, ignore=shutil.ignore_patterns("__pycache__"))
    for wing in wings:
        shutil.rmtree(directory / wing)
    hidden = ["import sys"] + ["sys.modules[%r] = None" % wing for wing in wings if os.sep not in wing]
    (directory / "sitecustomize.py").write_text("\n".join(hidden) + "\n")
    return directory


def run_python(sources, *words, cwd=ROOT, **variables):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ.update(variables, PYTHONPATH=str(sources))
    return subprocess.run([sys.executable, *words], cwd=cwd, env=environ, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_core_passes_its_quick_tests_without_any(core):
    check_core(core, *QUICK, cases=10)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_the_core_passes_its_tests_without_any(core):
    check_core(core)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("wing", WINGS, ids=os.path.basename)
def test_the_core_passes_its_quick_tests_without(wing, tmp_path):
    check_core(copy_without([wing], tmp_path / "src"), *QUICK, cases=10)


def check_core(sources, *words, cases=20):
    """The core's unit tests pass on these sources, with fewer cases of what is tried at random: all of them have been
    tried with the wings."""
    done = run_python(sources, *PYTEST, *words, *CORE_TESTS, WORLDSIZE_FUZZ_CASES=str(cases))
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    return copy_without(WINGS, tmp_path_factory.mktemp("core") / "src")


@pytest.fixture
def worldsize(core, tmp_path):
    """Runs the command line of the core alone, in the test's own directory."""

    def run(*words):
        home = str(tmp_path / "home")
        variables = {"HOME": home, "WORLDSIZE_HOME": home, "WORLDSIZE_TRUST_PROJECT": "1"}
        return run_python(core, "-m", "worldsize", *words, cwd=tmp_path, **variables)

    return run


def check_refused(done, what):
    assert (done.returncode, done.stdout) == (2, ""), done
    assert MISSING % what in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) <= 3


def test_every_module_of_the_core_can_be_imported(core):
    program = (
        "import pkgutil, importlib, worldsize\n"
        "for each in pkgutil.walk_packages(worldsize.__path__, 'worldsize.'):\n"
        "    if not each.name.startswith('worldsize.inrank') and not each.name.endswith('__main__'):\n"
        "        importlib.import_module(each.name)\n"
    )
    done = run_python(core, "-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "convert train.py",
        "simulate hpcpack",
        "hpcpack check",
        "env list",
        "diff",
        "init",
        "schema",
        "examples",
        "requeue",
        "nodes",
        "check train.py",
        "doctor",
        "exec -- true",
        "shell",
        "prune --keep 1",
    ],
)
def test_a_verb(worldsize, words):
    check_refused(worldsize(*words.split()), "`worldsize %s`" % words.split()[0])


@pytest.mark.parametrize("option", [(), ("--dry-run",)], ids=["run", "dry run"])
@pytest.mark.parametrize(
    ("job", "what"),
    [
        ("environment: {pip: [demo]}", "building environments"),
        ("environment: {image: 'docker://alpine'}", "running ranks in container images"),
        ("environment: demo.tar.gz", "unpacking environments on nodes"),
        ("inputs: {data: {path: 'https://localhost/data'}}", "downloading inputs"),
        ("inputs: {data: {path: '.', mode: ro_mount}}", "preparing the nodes' disks"),
        ("stage: {data: {a: 'https://localhost/data'}}", "job.yml:2: stage:"),
        ("autotune: {}", "job.yml:2: autotune:"),
        *(
            ("distribution: {type: %s}" % name, "the distribution " + name)
            for name in ("mpi", "horovod", "deepspeed", "tensorflow", "jax", "ray")
        ),
    ],
)
def test_a_job(worldsize, job, what, option, tmp_path):
    (tmp_path / "job.yml").write_text("command: command -v python\n%s\n" % job)
    (tmp_path / "demo.tar.gz").write_bytes(b"")
    check_refused(worldsize("run", *option, "job.yml"), what)
    assert not (tmp_path / "home" / "runs").exists()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["run", "--dry-run", "job.slurm"], "running batch scripts"),
        (["run", "--dry-run", "job.yml"], "running batch scripts"),
        (["rehearse", "--dry-run", "--", "true"], "a rehearsal"),
        (["run", "--dry-run", "--virtual-gpus", "2", "--", "true"], "a rehearsal"),
        (["run", "--dry-run", "--data-parallel", "--", "true"], "`data_parallel`"),
        (["run", "--dry-run", "--", "deepspeed", "train.py"], "the launcher deepspeed"),
    ],
)
def test_a_way_to_start(worldsize, words, what, tmp_path):
    (tmp_path / "job.slurm").write_text("#!/bin/bash\nsrun true\n")
    (tmp_path / "job.yml").write_text("batch_script: job.slurm\n")
    check_refused(worldsize(*words), what)


@pytest.mark.exhaustive(unless=["--virtual-gpus 2"])
@pytest.mark.parametrize("words", ["--virtual-gpus 2", "--data-parallel"])
def test_bytecode_that_is_left_of_a_wing_is_none(tmp_path, words):
    """Git and package managers remove sources, and leave the folders of their bytecode."""
    sources = copy_without(WINGS, tmp_path / "src")
    for wing in WINGS:
        for side in ("agent", "inrank", ""):
            (sources / wing / side / "__pycache__").mkdir(parents=True)
    words = ["-m", "worldsize", "run", *words.split(), "--", "true"]
    done = run_python(sources, *words, cwd=tmp_path, HOME=str(tmp_path))
    assert done.returncode == 2 and MISSING[3:] in done.stderr and "Traceback" not in done.stderr, done


@pytest.mark.parametrize(
    ("group", "files", "what"),
    [
        (
            "computes",
            {
                "own.py": "KEYS = {}\nopen_compute = compute_of_run = print\n",
                "worldsize.toml": "[compute.lab]\ntype = 'own'\n",
                "job.yml": "command: 'true'\ncompute: lab\n",
            },
            "using computes of other packages",
        ),
        (
            "distributions",
            {"own.py": "", "job.yml": "command: 'true'\ndistribution: {type: own}\n"},
            "using distributions of other packages",
        ),
    ],
)
def test_a_part_of_another_package(core, tmp_path, group, files, what):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    write_package(tmp_path, "own-part", "[worldsize.%s]\nown = own\n" % group)
    home = str(tmp_path / "home")
    path = "%s:%s" % (core, tmp_path)
    done = run_python(path, "-m", "worldsize", "run", "job.yml", cwd=tmp_path, HOME=home, WORLDSIZE_TRUST_PROJECT="1")
    check_refused(done, what)


def test_commands_on_nodes_that_another_wing_asks_for(tmp_path):
    sources = copy_without([os.path.join("worldsize", "wings", "node_commands")], tmp_path / "src")
    done = run_python(sources, "-m", "worldsize", "env", "check", cwd=tmp_path, HOME=str(tmp_path))
    check_refused(done, "executing commands on nodes")


@pytest.mark.parametrize("name", ["shard", "command", "submit", "MpiDistribution", "TensorFlowDistribution"])
def test_a_name_of_the_python_surface(core, name):
    done = run_python(core, "-c", "import worldsize\nworldsize.%s" % name)
    assert "ConfigError: " + MISSING % "worldsize.%s" % name in done.stderr


def test_what_slurm_tells_people(core):
    program = (
        "from worldsize.compute.slurm.compute import compute_of_run\n"
        "cluster = compute_of_run('/', None, 'lab', {})\n"
        "print(cluster.explain({'job': '7'}, '', 1.0, ()), cluster.usage([{'job': '7'}], 1.0))\n"
        "cluster.nodes()"
    )
    done = run_python(core, "-c", program)
    assert done.stdout == "None [None]\n"
    assert "ConfigError: " + MISSING % "listing Slurm's nodes" in done.stderr


def test_a_run_inside_an_allocation(core):
    handle = "{'type': 'slurm-step', 'job': '7', 'run_id': 'r'}"
    program = "from worldsize.compute.slurm.compute import compute_of_run\ncompute_of_run('/', %s, 'lab', {})" % handle
    done = run_python(core, "-c", program)
    assert "ConfigError: " + MISSING % "running inside an allocation of Slurm's" in done.stderr


def test_a_launcher_of_another_wing(tmp_path):
    sources = copy_without(["worldsize/wings/mpi"], tmp_path / "src")
    (tmp_path / "job.yml").write_text("command: 'true'\ndistribution: {type: horovod, launcher: mpirun}\n")
    home = str(tmp_path / "home")
    done = run_python(sources, "-m", "worldsize", "run", "job.yml", cwd=tmp_path, HOME=home, WORLDSIZE_HOME=home)
    check_refused(done, "the launcher mpirun")


def test_a_word_of_a_launcher_in_a_command_and_that_it_goes_on(worldsize):
    done = worldsize("run", "--", "echo", "--deepspeed", "ds.json")
    assert (done.returncode, done.stdout) == (0, "0:0: --deepspeed ds.json\n"), done


def test_a_type_of_compute_and_that_others_go_on(worldsize, tmp_path):
    cluster = ["[compute.head]", 'type = "hpcpack"', 'url = "https://127.0.0.1:9"', 'node_group = "GPU"']
    (tmp_path / "worldsize.toml").write_text("\n".join(cluster))
    check_refused(worldsize("run", "--compute", "head", "--", "true"), "the compute type hpcpack")
    done = worldsize("run", "--", "echo", "there")
    assert (done.returncode, done.stdout) == (0, "0:0: there\n"), done


def test_an_environment_that_exists_needs_none(worldsize, tmp_path):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    os.symlink(sys.executable, tmp_path / "env" / "bin" / "python")
    (tmp_path / "job.yml").write_text(
        "command: command -v python\nenvironment: ./env\nsecrets: [HOME]\noffline: true\n"
    )
    done = worldsize("run", "job.yml")
    assert (done.returncode, done.stdout) == (0, "0:0: %s\n" % (tmp_path / "env" / "bin" / "python")), done
