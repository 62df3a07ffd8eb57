"""The site's defaults, weaker than all that a user sets, and its rules, which nothing overrides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from worldsize.errors import PreflightError
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job, Limits
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.service.request import KeyOrigins, SubmissionRequest
from worldsize.service.site_rules import with_site_rules
from worldsize.service.submission.plan_job import plan_job

COMPUTES = """default_compute = "lab"
[compute.lab]
type = "slurm"
partition = "gpu"
exclusive = "true"
[compute.other]
type = "slurm"
"""


class Site:
    """A site, a user and a project, and the requests of jobs there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {"HOME": str(root / "home"), "WORLDSIZE_TRUST_PROJECT": "1", "PATH": os.environ["PATH"]}
        self.write("site.toml", "")
        self.environ["WORLDSIZE_SITE_CONFIG"] = str(root / "site.toml")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def site(self, text: str) -> None:
        self.write("site.toml", COMPUTES + text)

    def request(
        self, job: Job | str, options: Mapping[str, str] | None = None, compute: str | None = None, dry: bool = True
    ) -> SubmissionRequest:
        lines: Mapping[str, int] = {}
        if isinstance(job, str):
            job, _, lines = parse_job(job, "job.yml")
        origins = KeyOrigins(job.source, lines, options or {})
        config = load_config(str(self.root), self.environ)
        return SubmissionRequest(job, config, compute, self.environ, str(self.root), origins, dry=dry)

    def job(self, job: Job | str, **asked: str) -> Job:
        return with_site_rules(self.request(job, **asked))[0].job  # type: ignore[arg-type]

    def refusal(self, job: Job | str, options: Mapping[str, str] | None = None, compute: str | None = None) -> str:
        with pytest.raises(PreflightError) as caught:
            plan_job(self.request(job, options, compute), 1.0)
        return str(caught.value).replace(str(self.root) + "/", "")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


DEFAULTS = """[defaults]
"limits.timeout" = 60
grace = 3
"slurm.account" = "guest"
"slurm.partition" = "short"
"slurm.sbatch_options" = {mail-type = "END"}
environment_variables = {A = "site", B = "site"}
modules = ["site"]
preload = "off"
hpcpack = {priority = "Lowest"}
"""


def test_a_default_counts_where_nothing_else_is_set(site: Site) -> None:
    site.site(DEFAULTS)
    request, notices = with_site_rules(site.request("command: x\nenvironment_variables: {B: mine}\n"))
    job = request.job
    assert (job.limits.timeout, job.grace, job.modules, job.preload) == (60, 3, ("site",), ("off",))
    assert job.environment_variables == {"A": "site", "B": "mine"}
    assert job.slurm == {"account": "guest", "sbatch_options": {"mail-type": "END"}}, "the compute has a partition"
    assert job.hpcpack == {}, "the compute is of another type"
    assert request.origins.of("limits.timeout") == "%s/site.toml:9: limits.timeout" % site.root
    assert (notices[0].where, notices[0].what) == (request.origins.of("limits.timeout"), "60, the site's default")
    assert with_site_rules(site.request("command: x", dry=False))[1] == []


def test_mappings_are_completed_key_by_key(site: Site) -> None:
    site.site('[defaults]\n"resources.shm_size" = "2g"\nslurm.account = "guest"\ntags.a = "1"\n')
    for text in ("resources: {instance_count: 1}\nslurm: {}\ntags: {b: x}", "tags: {}"):
        job = site.job("command: x\n" + text)
        assert (job.resources.shm_size, job.slurm, job.tags["a"]) == ("2g", {"account": "guest"}, "1")


WEAKER = [
    ("limits: {timeout: 5}", "limits.timeout", 5),
    ("grace: 10", "grace", 10),  # the job's own default, but written
    ("slurm: {account: mine}", "slurm.account", "mine"),
    ("slurm: {sbatch_options: {Account: mine}}", "slurm.account", None),
    ("slurm: {time: 1-0}", "limits.timeout", None),
    ("modules: [mine]", "modules", ("mine",)),
    ("modules: []", "modules", ()),
]


@pytest.mark.parametrize(("line", "key", "value"), WEAKER)
def test_a_default_is_weaker_than_the_job_file(site: Site, line: str, key: str, value: object) -> None:
    site.site(DEFAULTS)
    found: object = site.job("command: x\n" + line)
    for step in key.split("."):
        found = found.get(step) if isinstance(found, Mapping) else getattr(found, step)
    assert found == value


def test_a_default_is_weaker_than_python_the_command_line_and_the_configuration(site: Site) -> None:
    site.site(DEFAULTS)
    assert site.job(Job("x", limits=Limits(7))).limits.timeout == 7
    assert site.job(Job("x"), options={"grace": "--set grace"}).grace == 10  # type: ignore[arg-type]
    site.write("home/.config/worldsize/worldsize.toml", 'preload = ["torch"]\n[compute.lab]\ngrace = 9\n')
    site.write("worldsize.toml", "[compute.lab]\naccount = 'project'\nmodules = ['project']\n")
    job = site.job(Job("x"))
    assert (job.preload, job.grace, job.modules, "account" in job.slurm) == ((), 10, (), False)


RULES = """
[[forbidden]]
key = "slurm.exclusive"
value = ["user", true]
why = "WHOLE"
[[forbidden]]
key = "slurm.sbatch_options.mail-type"
why = "MAIL"
[[forbidden]]
key = "slurm.qos"
computes = ["other"]
why = "QOS"
[[forbidden]]
key = "slurm.partition"
value = "debug"
why = "DEBUG"
[[forbidden]]
key = "services"
why = "SERVICES"
[[forbidden]]
key = "strict"
why = "STRICT"
"""
BY = "forbidden by site.toml:%d: %s"
FORBIDDEN = [
    ("slurm: {exclusive: user}", "job.yml:2: slurm.exclusive: " + BY % (9, "WHOLE")),
    ("slurm: {exclusive: true}", BY % (9, "WHOLE")),
    ("slurm: {sbatch_options: {EXCLUSIVE: user}}", "slurm.sbatch_options.EXCLUSIVE: " + BY % (9, "WHOLE")),
    ("slurm: {sbatch_options: {Mail_Type: END}}", BY % (13, "MAIL")),
    ("slurm: {partition: [gpu, debug]}", BY % (20, "DEBUG")),
    ("slurm: {partition: 'gpu, Debug'}", BY % (20, "DEBUG")),
    ("services: {board: {type: tensor_board}}", "job.yml:2: services.board.type: " + BY % (24, "SERVICES")),
    ("strict: false", "job.yml:2: strict: " + BY % (27, "STRICT")),
    ("count: 2\nslurm: {exclusive: user}", "job.yml:3: slurm.exclusive: " + BY % (9, "WHOLE")),
]


@pytest.mark.parametrize(("line", "message"), FORBIDDEN)
def test_a_job_file_that_sets_what_is_forbidden_is_refused(site: Site, line: str, message: str) -> None:
    site.site(RULES)
    assert message in site.refusal("command: x\n" + line)


ALLOWED = ["slurm: {exclusive: mcs}", "slurm: {qos: high}", "slurm: {partition: gpu}", "threads: 1"]


@pytest.mark.parametrize("line", ALLOWED)
def test_other_values_keys_and_computes_are_allowed(site: Site, line: str) -> None:
    site.site(RULES)
    assert site.job("command: x\n" + line)


def test_all_that_is_forbidden_is_named_at_once_wherever_it_is_set(site: Site) -> None:
    site.site(RULES)
    site.write("worldsize.toml", "[compute.other]\nexclusive = 'user'\nqos = 'high'\n")
    site.write("home/.config/worldsize/worldsize.toml", "[compute.other]\npartition = 'debug'\n")
    shown = site.refusal(Job("x", strict=True), {"strict": "--set strict"}, "other")
    for line in (
        "--set strict: " + BY % (27, "STRICT"),
        "worldsize.toml:2: compute.other.exclusive: " + BY % (9, "WHOLE"),
        "worldsize.toml:3: compute.other.qos: " + BY % (16, "QOS"),
        "home/.config/worldsize/worldsize.toml:2: compute.other.partition: " + BY % (20, "DEBUG"),
    ):
        assert line in shown
    assert "4 problems" in shown


def test_what_the_site_itself_sets_is_allowed(site: Site) -> None:
    """Its own computes, its defaults, and the job of a former run, which has these defaults."""
    site.site('[defaults]\nslurm.qos = "normal"\n%s[[forbidden]]\nkey = "slurm.qos"\nwhy = "x"' % RULES)
    job = site.job(Job("x"))
    assert job.slurm == {"qos": "normal"}
    assert site.job(job).slurm == {"qos": "normal"}
    assert BY % (32, "x") in site.refusal("command: x\nslurm: {qos: high}")


COMPUTE = '[[forbidden]]\nkey = "compute"\nvalue = "local"\nwhy = "not on login nodes"\n'


@pytest.mark.parametrize(
    ("job", "compute", "place"),
    [("command: x\ncompute: local", None, "job.yml:2: compute: "), ("command: x", "local", "--compute: ")],
)
def test_a_compute_may_be_forbidden(site: Site, job: str, compute: str | None, place: str) -> None:
    site.site(COMPUTE)
    assert place + BY % (8, "not on login nodes") in site.refusal(job, compute=compute)
    assert site.job("command: x")


def test_the_compute_of_jobs_that_name_none_may_be_forbidden(site: Site) -> None:
    site.write("site.toml", COMPUTE)
    assert "default_compute: " + BY % (1, "not on login nodes") in site.refusal("command: x")
