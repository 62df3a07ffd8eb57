"""The site's defaults are weaker than a batch script's options, and its rules hold for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.errors import PreflightError
from worldsize.jobspec.config.load import load_config
from worldsize.service.request import KeyOrigins, SubmissionRequest
from worldsize.service.site_rules import with_site_rules
from worldsize.service.submission.plan_job import plan_job
from worldsize.wings.batch_scripts.script.job import load_script

SITE = """default_compute = "lab"
[compute.lab]
type = "slurm"
[defaults]
"limits.timeout" = 60
"slurm.account" = "guest"
"slurm.sbatch_options" = {mail-type = "END"}
modules = ["site"]
[[forbidden]]
key = "slurm.exclusive"
value = [true, "user"]
why = "WHOLE"
[[forbidden]]
key = "slurm.partition"
value = "debug"
why = "DEBUG"
[[forbidden]]
key = "slurm.sbatch_options.gres"
why = "GRES"
[[forbidden]]
key = "slurm.requeue"
value = false
why = "REQUEUE"
"""


def request_of(tmp_path: Path, *options: str) -> SubmissionRequest:
    (tmp_path / "site.toml").write_text(SITE)
    script = tmp_path / "a.slurm"
    script.write_text("#!/bin/bash\n%s\nsrun true\n" % "\n".join("#SBATCH " + each for each in options))
    environ = {"HOME": str(tmp_path), "WORLDSIZE_SITE_CONFIG": str(tmp_path / "site.toml"), "PATH": os.defpath}
    loaded = load_script(str(script), str(tmp_path))
    config = load_config(str(tmp_path), environ)
    origins = KeyOrigins(loaded.job.source, loaded.lines)
    return SubmissionRequest(loaded.job, config, None, environ, str(tmp_path), origins, dry=True)


def test_a_default_fills_what_the_script_leaves_out(tmp_path: Path) -> None:
    request = request_of(tmp_path, "--account=mine", "--time=5")
    job = with_site_rules(request)[0].job
    assert (job.batch_script, job.limits.timeout) == (request.job.batch_script, None)
    assert job.slurm == {"sbatch_options": {"mail-type": "END"}} and not job.modules, "the script loads its own modules"
    job = with_site_rules(request_of(tmp_path, "--nodes=1"))[0].job
    assert (job.slurm["account"], job.limits.timeout) == ("guest", 60)


def test_what_is_forbidden_is_named_with_its_line(tmp_path: Path) -> None:
    request = request_of(tmp_path, "--exclusive", "-p gpu,debug", "--gres gpu:4", "--no-requeue", "--exclude=n1")
    with pytest.raises(PreflightError) as caught:
        plan_job(request, 1.0)
    lines = str(caught.value).replace(str(tmp_path) + "/", "").splitlines()[1:]
    assert [line.strip() for line in lines] == [
        "a.slurm:2: --exclusive: forbidden by site.toml:9: WHOLE",
        "a.slurm:3: --partition: forbidden by site.toml:13: DEBUG",
        "a.slurm:4: --gres: forbidden by site.toml:17: GRES",
        "a.slurm:5: --no-requeue: forbidden by site.toml:20: REQUEUE",
    ]
    allowed = request_of(tmp_path, "--exclusive=mcs", "--partition=gpu", "--requeue")
    assert with_site_rules(allowed)[0].job.batch_script == allowed.job.batch_script
