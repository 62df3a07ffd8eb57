"""What the doctor makes of facts and of what programs print: yes, no or unknown, and the fix of each no."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from worldsize.compute.base import CheckResult
from worldsize.extras import EXTRAS
from worldsize.jobspec.config.config import Config, ForbiddenRule
from worldsize.state.check_rows import CheckRow
from worldsize.wings.doctor.facts import DirectoryFacts, InstallationFacts, LimitFacts, installation_kind
from worldsize.wings.doctor.programs import MISSING, Answer
from worldsize.wings.doctor.questions import ALONE, SLURM
from worldsize.wings.doctor.screen import screen_lines
from worldsize.wings.doctor.subjects import computes, installation, machine, slurm
from worldsize.wings.doctor.subjects.computes import ComputeState

HANGS = Answer("/bin/x", None, "", "no answer in 5 s")
MORE = ("python", "ping", "partitions", "associations", "account", "srun-help")
NOTHING = dict.fromkeys((*ALONE, *SLURM, *MORE), MISSING)


def said(out: str, code: int = 0, path: str = "/bin/x") -> Answer:
    return Answer(path, code, out)


def by_id(rows: Iterable[CheckRow]) -> dict[str, CheckRow]:
    found = {row.id: row for row in rows}
    assert all(row.hint for row in found.values() if row.verdict in ("bad", "warning")), "each no has its fix"
    return found


def shown(rows: Iterable[CheckRow]) -> dict[str, tuple[str, str]]:
    return {row.id: (row.verdict, row.value) for row in by_id(rows).values()}


def test_the_extras_are_those_of_the_project() -> None:
    root = Path(__file__).parents[4]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {extra: tuple(word.partition(">")[0] for word in packages) for extra, packages in extras.items()}
    for extra in ("all", "torch", "examples"):  # of others, or for what jobs import
        del names[extra]
    assert dict(EXTRAS) == names


@pytest.mark.parametrize(
    ("package", "prefix", "base", "kind"),
    [
        ("/v/lib/python3.12/site-packages/worldsize", "/v", "/usr", "in a virtual environment"),
        ("/usr/lib/python3/site-packages/worldsize", "/usr", "/usr", "in Python's own packages"),
        ("/h/.local/pipx/venvs/w/lib/worldsize", "/h/.local/pipx/venvs/w", "/usr", "by pipx"),
        ("/h/.local/share/uv/tools/w/lib/worldsize", "/h/.local/share/uv/tools/w", "/usr", "by uv tool"),
    ],
)
def test_how_it_is_installed(package: str, prefix: str, base: str, kind: str) -> None:
    assert installation_kind(package, prefix, base) == (kind, prefix)


def test_a_checkout_a_conda_environment_and_one_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    assert installation_kind(str(tmp_path / "src" / "worldsize"), "/v", "/usr") == ("a checkout", str(tmp_path))
    (tmp_path / "conda-meta").mkdir()
    assert installation_kind("/x/y/worldsize", str(tmp_path), "/usr") == ("in a conda environment", str(tmp_path))
    (tmp_path / "worldsize.pyz").touch()
    prefix = tmp_path / "pex"
    prefix.mkdir()
    (prefix / "PEX-INFO").touch()
    assert installation_kind("/x/worldsize", str(prefix), "/usr") == ("one file (zipapp)", str(prefix))


def test_the_extras_that_are_missing_have_one_command() -> None:
    packages = dict.fromkeys((name for names in EXTRAS.values() for name in names), "1.0")
    facts = InstallationFacts("0.1.0", "by pipx", "/p", "3.12.1", "/p/bin/python", {**packages, "uv": "", "adlfs": ""})
    rows = by_id(installation.installation_rows(facts))
    assert rows["worldsize.version"].value == "0.1.0, by pipx: /p"
    assert rows["worldsize.missing_extras"].value == "env (uv); data (adlfs)"
    assert rows["worldsize.missing_extras"].hint == "pip install 'worldsize[env,data]'"
    whole = by_id(installation.installation_rows(facts._replace(packages=packages)))
    assert "worldsize.missing_extras" not in whole


def test_the_files_in_force_and_those_that_do_not_count() -> None:
    rule = ForbiddenRule("slurm.qos", "why", "/etc/worldsize/config.toml:3")
    config = Config(
        files={"/etc/worldsize/config.toml": "site", "/p/worldsize.toml": "project"},
        forbidden=(rule,),
        notices=(
            "/h/w.toml is ignored: every user may write to it; if you trust it: worldsize config trust /h/w.toml",
            "/p/w.toml sets python; it is used, since only you may. If you have read it: worldsize config trust x",
        ),
    )
    rows = by_id(installation.configuration_rows(config))
    assert rows["config.files"].value == "the site's: /etc/worldsize/config.toml; the project's: /p/worldsize.toml"
    assert rows["config.site"].value.startswith("0 defaults, 1 forbidden")
    assert rows["config.ignored"][3:] == (
        "/h/w.toml is ignored: every user may write to it",
        "warning",
        "worldsize config trust /h/w.toml",
    )
    assert rows["config.untrusted"].verdict == "ok"
    assert by_id(installation.configuration_rows(Config()))["config.files"].value == "none: the defaults"


HOME = DirectoryFacts("/h", True, True, "nfs4", False, 5 << 30)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (HOME, {"home.directory": ("ok", "/h, nfs4, 5 GiB free"), "home.links": ("ok", "work")}),
        (HOME._replace(exists=False), {"home.directory": ("ok", "/h, nfs4, 5 GiB free, which the first run makes")}),
        (HOME._replace(writable=False), {"home.directory": ("bad", "/h cannot be written to")}),
        (
            HOME._replace(free=1 << 20, locks="No locks available"),
            {
                "home.directory": ("warning", "/h, nfs4, 1 MiB free"),
                "home.locks": ("warning", "cannot be had: No locks available"),
            },
        ),
        (
            HOME._replace(links="Operation not permitted"),
            {
                "home.directory": ("ok", "/h, nfs4, 5 GiB free"),
                "home.links": ("warning", "cannot be made: Operation not permitted"),
            },
        ),
        (None, {"home.directory": ("unknown", "/h")}),
    ],
)
def test_the_home(facts: DirectoryFacts | None, expected: dict[str, tuple[str, str]]) -> None:
    assert shown(installation.home_rows(facts, "/h", 5)) == expected


@pytest.mark.parametrize(
    ("python", "verdict", "value"),
    [
        (said("3.8.0\n/e/bin/python\n", path="/e/bin/python"), "ok", "3.8.0 (/e/bin/python)"),
        (said("2.7.18\n/usr/bin/python"), "bad", "2.7.18 (/bin/x) is older than 3.8"),
        (said("no such module", 1), "bad", "/bin/x fails with code 1: no such module"),
        (said("a text"), "bad", "/bin/x fails with code 0: a text"),
        (MISSING, "bad", "no python on PATH"),
        (HANGS, "unknown", "/bin/x"),
    ],
)
def test_the_python_of_jobs(python: Answer, verdict: str, value: str) -> None:
    rows = shown(machine.job_rows({**NOTHING, "bash": said("GNU bash"), "python": python}))
    assert rows["jobs.python"] == (verdict, value) and rows["jobs.shell"] == ("ok", "/bin/x")


LIMITS = LimitFacts((1024, 524288), (-1, -1), 64 << 20, "")


def test_the_limits_and_the_network() -> None:
    rows = by_id(machine.limit_rows(LIMITS))
    assert (rows["limits.open_files"].value, rows["limits.open_files"].hint) == (
        "1,024, at most 524,288",
        "ulimit -n 65536, in `setup`",
    )
    assert rows["limits.processes"][3:5] == ("no limit", "ok")
    assert rows["limits.shm"][3:5] == ("64 MiB", "warning")
    hard = by_id(machine.limit_rows(LIMITS._replace(open_files=(1024, 1024), shared_memory=None)))
    assert "limits.conf" in hard["limits.open_files"].hint and hard["limits.shm"].value == "none"
    assert shown(machine.network_rows(LIMITS, {"name": said("node1\n10.0.0.1\n")})) == {
        "network.loopback": ("ok", "works"),
        "network.name": ("ok", "node1 is 10.0.0.1"),
    }
    wrong = said("node1\nTraceback…\nsocket.gaierror: [Errno -2] Name or service not known", 1)
    assert shown(machine.network_rows(LIMITS._replace(loopback="Network is unreachable"), {"name": wrong})) == {
        "network.loopback": ("bad", "Network is unreachable"),
        "network.name": ("warning", "node1 cannot be resolved"),
    }
    assert shown(machine.network_rows(LIMITS, {"name": HANGS}))["network.name"][0] == "unknown"


def test_ssh_without_contacting_anything() -> None:
    ssh = {**NOTHING, "ssh": said("OpenSSH_9.2p1 Debian-2, OpenSSL 3.0")}
    assert shown(machine.ssh_rows(NOTHING, []))["ssh.client"] == ("warning", "no ssh on PATH")
    assert shown(machine.ssh_rows(ssh, []))["ssh.keys"] == ("warning", "no key, and no agent with one")
    assert shown(machine.ssh_rows(ssh, ["id_ed25519"]))["ssh.keys"] == ("ok", "keys: ~/.ssh/id_ed25519")
    agent = {**ssh, "ssh-add": said("256 SHA256:x me (ED25519)\n")}
    assert shown(machine.ssh_rows(agent, []))["ssh.keys"] == ("ok", "keys: 1 in the agent")
    empty = {**ssh, "ssh-add": said("The agent has no identities.\n", 1)}
    assert shown(machine.ssh_rows(empty, []))["ssh.keys"][0] == "warning"
    assert shown(machine.ssh_rows({**ssh, "ssh-add": HANGS}, []))["ssh.keys"][0] == "unknown"


H100 = "NVIDIA H100 80GB HBM3, 81559 MiB, 550.54.15\n" * 2


@pytest.mark.parametrize(
    ("answer", "devices", "verdict", "value"),
    [
        (said(H100), [], "ok", "2 × NVIDIA H100 80GB HBM3, 81559 MiB, driver 550.54.15"),
        (said("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9), [], "warning",
         "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        (MISSING, ["nvidia0"], "warning", "/dev/nvidia0, but no nvidia-smi on PATH"),
        (MISSING, ["kfd"], "ok", "AMD's driver (/dev/kfd)"),
        (MISSING, [], "warning", "none"),
        (HANGS, [], "unknown", "/bin/x"),
    ],
)  # fmt: skip
def test_the_gpus(answer: Answer, devices: list[str], verdict: str, value: str) -> None:
    assert shown(machine.gpu_rows({"nvidia-smi": answer}, devices)) == {"gpus.driver": (verdict, value)}


def test_the_programs_of_jobs() -> None:
    answers = {
        **NOTHING,
        "mpirun": said("mpirun (Open MPI) 4.1.4\n\nReport bugs"),
        "apptainer": said("apptainer version 1.3.1-1.el9"),
        "docker": HANGS,
        "srun-help": said("      --container-image=[USER@][REGISTRY#]IMAGE"),
        "modules": said("function\n\nModules based on Lua: Version 8.7.53 2024\n"),
        "uv": said("uv 0.8.3 (abc)"),
    }
    assert shown(machine.software_rows(answers)) == {
        "mpi.mpirun": ("ok", "mpirun (Open MPI) 4.1.4 (/bin/x)"),
        "containers.runtime": ("ok", "apptainer 1.3.1, pyxis (srun --container-image)"),
        "modules.command": ("ok", "8.7.53"),
        "environments.programs": ("ok", "uv 0.8.3"),
    }
    nothing = by_id(machine.software_rows(NOTHING))
    assert {row.verdict for row in nothing.values()} == {"warning"}
    silent = by_id(machine.software_rows({**NOTHING, "docker": HANGS, "modules": HANGS}))
    assert silent["containers.runtime"][3:] == ("/bin/x", "unknown", "no answer in 5 s")
    assert silent["modules.command"].verdict == "unknown"


UP = "Slurmctld(primary) at ctl is UP\n"
CLUSTER = {
    **NOTHING,
    **dict.fromkeys(SLURM, said("slurm 23.11.4")),
    "ping": said(UP),
    "partitions": said("main|up|infinite|4|gpu:h100:4\nmain|up|infinite|2|(null)\nold|drain|2:00|1|(null)\n"),
    "associations": said("research||normal,urgent|\nteaching|cpu|normal|normal\n"),
    "account": said("research\n"),
}


def test_a_cluster_that_answers() -> None:
    assert shown(slurm.slurm_rows(CLUSTER, "ann", True)) == {
        "slurm.programs": ("ok", "sbatch, srun, squeue, sacct, scontrol, sinfo"),
        "slurm.controller": ("ok", UP.strip()),
        "slurm.version": ("ok", "23.11.4"),
        "slurm.partitions": ("ok", "main (6 nodes, infinite), old (1 nodes, 2:00, drain)"),
        "slurm.accounts": ("ok", "research (qos normal,urgent), teaching in cpu (qos normal); by default research"),
    }


SOURCE = (
    "sinfo: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
    "sinfo: fatal: Could not establish a configuration source\n"
)
NO_DATABASE = "sacctmgr: error: You are not running a supported accounting_storage plugin\n"


@pytest.mark.parametrize(
    ("changes", "row", "verdict", "value"),
    [
        (dict.fromkeys(SLURM, MISSING), "slurm.programs", "bad", "no sbatch on PATH"),
        ({"sacct": MISSING}, "slurm.programs", "bad", "no sacct on PATH"),
        ({"ping": said(UP.replace("UP", "DOWN"), 1)}, "slurm.controller", "bad", UP.strip().replace("UP", "DOWN")),
        ({"ping": said(SOURCE, 1)}, "slurm.controller", "bad", "resolve_ctls_from_dns_srv: res_nsearch error: Unknown"),
        ({"ping": HANGS}, "slurm.controller", "unknown", "scontrol ping"),
        ({"sbatch": said("slurm 19.05.5")}, "slurm.version", "warning", "19.05.5"),
        ({"sbatch": said("slurm 27.05.0")}, "slurm.version", "unknown", "27.05.0"),
        ({"sbatch": said("\x00\xff", 1)}, "slurm.version", "unknown", "/bin/x"),
        ({"partitions": said("")}, "slurm.partitions", "bad", "none"),
        ({"partitions": said("||||\n\x01|x\nz")}, "slurm.partitions", "bad", "none"),
        ({"partitions": said(SOURCE, 1)}, "slurm.partitions", "unknown", "sinfo"),
        ({"associations": said("")}, "slurm.accounts", "warning", "none in the cluster's database"),
        ({"associations": said(NO_DATABASE, 1)}, "slurm.accounts", "ok", "none needed: the cluster keeps no accounts"),
        ({"associations": HANGS}, "slurm.accounts", "unknown", "sacctmgr"),
    ],
)
def test_a_cluster_that_lacks_something(changes: dict[str, Answer], row: str, verdict: str, value: str) -> None:
    found = by_id(slurm.slurm_rows({**CLUSTER, **changes}, "ann", True))[row]
    assert found.verdict == verdict and found.value.startswith(value), found
    if verdict == "bad":
        assert by_id(slurm.slurm_rows({**CLUSTER, **changes}, "ann", False))[row].verdict == "warning", "not needed"


def test_a_controller_that_does_not_answer_is_said_once() -> None:
    rows = by_id(slurm.slurm_rows({**CLUSTER, "ping": HANGS}, "ann", True))
    assert list(rows) == ["slurm.programs", "slurm.controller"]


LAB = ComputeState("lab", "slurm", directory=DirectoryFacts("/s/runs", True, True, "lustre"))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (LAB, {"share.lab": ("ok", "/s/runs is on lustre"), "compute.lab": ("ok", "type slurm")}),
        (
            LAB._replace(directory=DirectoryFacts("/r", True, True, "xfs")),
            {"share.lab": ("unknown", "/r is on xfs"), "compute.lab": ("ok", "type slurm")},
        ),
        (
            LAB._replace(directory=DirectoryFacts("/r", False, False, "nfs")),
            {"share.lab": ("bad", "/r cannot be written to"), "compute.lab": ("ok", "type slurm")},
        ),
        (LAB._replace(directory=None), {"share.lab": ("unknown", "no answer"), "compute.lab": ("ok", "type slurm")}),
        (
            LAB._replace(problems=(CheckResult("error", "/tmp/r is local", "runs_dir", "set it"),)),
            {"share.lab": ("bad", "/tmp/r is local")},
        ),
        (
            LAB._replace(problems=(CheckResult("error", "is missing", "compute.lab.url"),)),
            {"compute.lab": ("bad", "compute.lab.url: is missing")},
        ),
        (
            ComputeState("cloud", "azureml", (CheckResult("notice", "not signed in", None, "az login"),), hosted=True),
            {"compute.cloud": ("unknown", "not signed in")},
        ),
        (
            ComputeState("cloud", "azureml", hosted=True, answer="at most 4 nodes"),
            {"compute.cloud": ("ok", "type azureml, at most 4 nodes")},
        ),
        (ComputeState("local", "local"), {"compute.local": ("ok", "type local")}),
        (ComputeState("local", "local", forbidden="by a rule"), {"compute.local": ("warning", "by a rule")}),
    ],
)
def test_a_compute(state: ComputeState, expected: dict[str, tuple[str, str]]) -> None:
    assert shown(computes.compute_rows(state)) == expected


def test_the_verdict_names_the_row_that_decides() -> None:
    here, cloud = ComputeState("local", "local"), ComputeState("cloud", "azureml")
    rows = [
        CheckRow("", "jobs.python", "", "", "bad", "x"),
        CheckRow("", "gpus.driver", "", "", "warning", "x"),
        CheckRow("", "slurm.accounts", "", "", "unknown"),
        CheckRow("", "compute.lab", "", "", "ok"),
    ]
    found = computes.verdicts([here, LAB, cloud], rows)
    assert [tuple(each) for each in found] == [
        ("local", "local", "bad", "jobs.python"),
        ("lab", "slurm", "unknown", "slurm.accounts"),
        ("cloud", "azureml", "ok", ""),
    ]
    (forbidden,) = computes.verdicts([cloud._replace(forbidden="by a rule")], [])
    assert forbidden == ("cloud", "azureml", "bad", "compute.cloud")
    assert computes.verdict_lines(found) == [
        "You can run on: cloud (azureml)",
        "Not known: lab (slurm, slurm.accounts)",
        "Not: this machine (jobs.python)",
    ]


def test_the_screen_has_the_fix_below_each_no() -> None:
    rows = [
        CheckRow("", "a.b", "first", "found", "ok"),
        CheckRow("", "long.name", "second", "none", "warning", "install it"),
        CheckRow("", "c.d", "third", "not asked", "unknown"),
    ]
    assert screen_lines(rows) == [
        "yes      a.b        first: found",
        "no       long.name  second: none",
        "                    → install it",
        "unknown  c.d        third: not asked",
    ]
