"""A run that Slurm starts again: its attempts log into one MLflow run, and the table and the CSV show both."""

from __future__ import annotations

import os

import pytest
from driver import wait_for
from slurm.login import PATIENCE, Login

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "..")
MLFLOW = os.path.join(os.path.realpath(os.path.join(SOURCE, ".venv-mlflow")), "bin", "python")

TRAIN = """
import os, time
import mlflow
attempt, rank = (int(os.environ["WORLDSIZE_" + name]) for name in ("ATTEMPT", "RANK"))
with mlflow.start_run(run_name="fit"):
    for step in range(2 * attempt, 2 * attempt + 3):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_param("attempt", attempt)
    open("outputs/up-%d-%d" % (rank, attempt), "w").close()
    time.sleep(0 if attempt else 600)
"""


def logged(login: Login, run: str) -> list[tuple[str, str, str]]:
    """Step, attempt and MLflow run of each value."""
    rows = [line.split(",") for line in login("metrics", run, "--csv").out.splitlines()[1:]]
    return [(row[2], row[7], row[8]) for row in rows]


@pytest.mark.exhaustive
@pytest.mark.skipif(not os.path.exists(MLFLOW), reason="no .venv-mlflow: make setup")
def test_the_attempts_of_a_run_are_one_run_of_mlflow(login: Login) -> None:
    """Slurm starts it again by itself, some seconds later: told to do so at once (`StartTime=now`), it gives the job up
    while a node still revokes the credential of its former start."""
    login.write("train.py", TRAIN)
    run = login.begin("%s train.py" % MLFLOW, code=".", slurm={"requeue": True})
    login.wait_up(run)
    wait_for(lambda: len(logged(login, run)) == 3, PATIENCE)  # a thread of the rank's writes them
    job = login.native(run)
    login.cluster.command("scontrol", "requeue", job)
    status = login.ended(run)
    assert status["state"] == "SUCCEEDED", (status, login.told_of(job))
    assert logged(login, run) == [
        *((str(step), "0", "fit") for step in range(3)),
        *((str(step), "1", "fit") for step in range(2, 5)),
    ]
