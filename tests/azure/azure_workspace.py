"""A workspace in place of the double: `WORLDSIZE_TEST_AZURE=…/worldsize.toml pytest tests/azure`, as `make test-azure`
does. Its compute is the default one, or what WORLDSIZE_COMPUTE says; you are signed in as for any job."""

from __future__ import annotations

import os
import signal
import sys
import tempfile

from worldsize.jobspec.config.load import load_config
from worldsize.service.computes import choose_compute
from worldsize.wings.selftest.command import sign_in_environ
from worldsize.wings.selftest.private_place import target_of
from worldsize.wings.selftest.remains import end_jobs, handles_below
from worldsize_conformance.place import Place, Target

VARIABLE = "WORLDSIZE_TEST_AZURE"
_END_PATIENCE = 300.0
"""Seconds until jobs that are cancelled have ended."""


def workspace_target() -> Target | None:
    """The compute that the variable's file configures; None where the tests have the double. ConfigError."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    config = load_config(os.path.dirname(os.path.abspath(path)), {**os.environ, "WORLDSIZE_TRUST_PROJECT": "1"})
    settings = config.compute(choose_compute(config, None, None))
    environ = sign_in_environ(settings, os.environ)
    fields = target_of(settings, tempfile.gettempdir(), sys.maxsize, environ)
    return Target(**{**fields, "directory": None, "environ": {name: environ[name] for name in fields["environ"]}})


def end_all(place: Place) -> None:
    """End the jobs that a test has left."""
    handles = [handle for handle in handles_below(place.root) if handle.get("type") == "azureml"]
    if handles:
        end_jobs(place.compute(), handles, _END_PATIENCE)


def require_no_loss_by_killed_clients(cloud: Place, world: str) -> None:
    """Clients that follow a run of two ranks are killed in the middle of reading: no line is lost, and none is there
    twice."""
    cloud.job("for i in $(seq 300); do echo line $i; sleep 0.02; done", world)
    run = cloud.submit("job.yml")
    for _ in range(3):
        following = cloud.start("logs", "-f", run)
        assert following.stdout is not None
        assert b"line" in following.stdout.readline()
        following.send_signal(signal.SIGKILL)
        following.communicate()
    assert cloud.wait_for_end(run)["state"] == "SUCCEEDED"
    for rank in (0, 1):
        assert cloud.ok("logs", run, "--rank", str(rank), "--raw").lines == ["line %d" % i for i in range(1, 301)]
