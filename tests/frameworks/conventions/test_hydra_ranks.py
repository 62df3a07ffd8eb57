"""Hydra and submitit: what starts several jobs of a script keeps its own numbers and directories."""

from __future__ import annotations

import pytest
from driver import Cli
from found_places import numbers, places
from training import needs

ENVIRONMENT = ".venv-conventions"
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300), needs(ENVIRONMENT)]

CONFIGURED = """
import os
import hydra
from hydra.core.hydra_config import HydraConfig

@hydra.main(version_base=None, config_path=None)
def main(config):
    own = HydraConfig.get()
    place = os.path.relpath(own.runtime.output_dir)
    say(rank=own.job.get("num", 0), world=int(os.environ["WORLD_SIZE"]), a=config.a, mode=own.mode.name, place=place)

main()
"""

SUBMITTED = """
import os
import submitit

def work(number):
    own = submitit.JobEnvironment()
    return {"cluster": own.cluster, "job": own.job_id, "number": number}

def is_in_a_job():
    try:
        return submitit.JobEnvironment().cluster
    except RuntimeError:
        return None

executor = submitit.AutoExecutor("logs", cluster="local")
executor.update_parameters(timeout_min=2)
jobs = [executor.submit(work, number) for number in range(2)]
results = [job.result() for job in jobs]
assert [each["job"] for each in results] == [job.job_id for job in jobs], results
clusters = sorted({each["cluster"] for each in results})
say(rank=0, world=1, clusters=clusters, own=is_in_a_job(), slurm=os.environ["SLURM_JOB_ID"] in str(results))
"""


def test_a_multirun_numbers_its_jobs(cli: Cli) -> None:
    found = places(cli, CONFIGURED, "1x1", ENVIRONMENT, "python found.py -m +a=5,6")
    assert [(each["rank"], each["a"], each["mode"]) for each in found] == [(0, 5, "MULTIRUN"), (1, 6, "MULTIRUN")]
    assert [each["place"].split("/")[0::3] for each in found] == [["multirun", "0"], ["multirun", "1"]]


@pytest.mark.parametrize("world", ["1x1", "1x2"])
def test_a_rank_writes_where_it_would_by_itself(cli: Cli, world: str) -> None:
    found = places(cli, CONFIGURED, world, ENVIRONMENT, "python found.py +a=5")
    assert numbers(found) == [(0, int(world[2]))] * int(world[2])
    assert all(each["mode"] == "RUN" and each["place"].startswith("outputs/") for each in found)


def test_jobs_of_submitit_on_this_machine_are_its_own(cli: Cli) -> None:
    (found,) = places(cli, SUBMITTED, "1x1", ENVIRONMENT)
    assert found["clusters"] == ["local"] and found["own"] is None and not found["slurm"]
