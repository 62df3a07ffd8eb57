"""The private directory of a self-test, which the nodes see. It is removed completely at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from worldsize.compute.base import Compute
from worldsize.errors import StorageError
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.trust.directories import make_private_directory
from worldsize.wings.selftest.compute_table import table_of
from worldsize.wings.selftest.remains import end_jobs, end_processes, handles_below, processes_below

_CLIENTS_PATIENCE, _FILES_PATIENCE = 10.0, 15.0
_JOBS_PATIENCE: Mapping[str, float] = {"azureml": 300.0}
_USUAL_JOBS_PATIENCE = 60.0
"""Seconds to wait until cancelled jobs have ended."""

_PATIENCE: Mapping[str, float] = {"local": 40.0, "azureml": 900.0}
_USUAL_PATIENCE = 180.0
"""Seconds that a small job may need: in the queue, and until the files of one node are visible on another."""

_NO_JOB: Mapping[str, Mapping[str, Any]] = {
    "local": {},
    "slurm": {"job": "99999999"},
    "azureml": {"name": "no-job-of-a-self-test"},
}
"""The handle of a job that does not exist, by type of compute. Other types use a job number."""

_KEPT = (
    *("SLURM_CONF", "SLURM_JWT", "KRB5CCNAME", "XDG_RUNTIME_DIR", "USER", "LOGNAME", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("MODULEPATH", "MODULESHOME", "MODULES_CMD", "LOADEDMODULES", "_LMFILES_", "BASH_ENV", "BASH_FUNC_module%%"),
    *("BASH_FUNC_ml%%", "LMOD_CMD", "LMOD_DIR", "LMOD_PKG", "LMOD_ROOT", "WORLDSIZE_HPCPACK_PASSWORD"),
)
"""Environment variables that a client needs to reach a compute, or that make `module` work on its nodes."""

_SIGN_IN = (
    *("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH"),
    *("AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST"),
    *("AZURE_CONFIG_DIR", "AZD_CONFIG_DIR", "AZURE_TOKEN_CREDENTIALS"),
    *("IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET"),
)
"""Environment variables with which a client signs in to Azure; passed only to tests on a workspace."""


def make_private_place(config: Config, settings: ComputeSettings) -> str:
    """Create a new directory for a self-test in the compute's directory of runs, or in the home directory of worldsize
    if the compute has none, and return its path. Raise StorageError."""
    base = settings.own_runs_dir or config.home
    try:
        os.makedirs(os.path.dirname(base), exist_ok=True)
        make_private_directory(base)
        return tempfile.mkdtemp(prefix="selftest-", dir=base)
    except OSError as error:
        raise StorageError(f"cannot make a directory for the self-test: {error.strerror}", base) from None


def target_of(settings: ComputeSettings, private: str, nodes: int, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the description of the compute under test, as JSON: the fields of the conformance suite's `Target`. Its
    `environ` contains only the names of variables, so that no file contains their values."""
    kind = settings.type
    kept = (*_KEPT, *(_SIGN_IN if kind == "azureml" else ()))
    return {
        "name": settings.name,
        "config": table_of(settings, os.path.join(private, "runs") if settings.runs_dir else None),
        "patience": _PATIENCE.get(kind, _USUAL_PATIENCE),
        "directory": private,
        "environ": [name for name in kept if name in environ],
        "inherits": kind in ("local", "slurm"),
        "unknown": dict(_NO_JOB.get(kind, {"job": 99999999})),
        "nodes": nodes,
        "visible": kind == "local",
        "modules": kind != "azureml",
    }


def remove_private_place(compute: Compute, kind: str, private: str) -> list[str]:
    """End all jobs and processes of the self-test on `compute`, which is of the type `kind`, and remove the self-test's
    directory `private`. Return a list of what is left, in words.

    Clients that are just submitting a job get time to record its identifier.
    """
    left = []
    patience = _JOBS_PATIENCE.get(kind, _USUAL_JOBS_PATIENCE)
    end_jobs(compute, handles_below(private), patience)
    deadline = time.monotonic() + _CLIENTS_PATIENCE
    while processes_below(private) and time.monotonic() < deadline:
        time.sleep(0.1)
    jobs = end_jobs(compute, handles_below(private), patience)
    if jobs:
        left.append(f"jobs in the queue: {len(jobs)}")
    processes = end_processes(private, _CLIENTS_PATIENCE)
    if processes:
        left.append(f"processes: {len(processes)}")
    if not _remove_directory(private):
        left.append("files in the directory of the self-test")
    return left


def _remove_directory(private: str) -> bool:
    """Remove the self-test's directory `private`, and return whether it is gone. The removal is repeated, since a
    process on a node may write a last file meanwhile."""
    deadline = time.monotonic() + _FILES_PATIENCE
    while True:
        shutil.rmtree(private, ignore_errors=True)
        if not os.path.lexists(private):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
