"""Submits failing.py's ranks the way submitit's README does: python submitit_job.py FOLDER NOTES [SRUN_ARGUMENT…]"""

import sys

import submitit


def rank(notes: str) -> None:
    import os
    import sys
    import time

    file = os.open(notes, os.O_WRONLY)
    os.write(file, b"rank %.6f\n" % time.time())
    if submitit.JobEnvironment().global_rank == 1:
        time.sleep(1)
        os.write(file, b"failing %.6f\n" % time.time())
        sys.exit(3)
    time.sleep(600)


def main(folder: str, notes: str, *srun_arguments: str) -> None:
    executor = submitit.AutoExecutor(folder=folder)
    executor.update_parameters(nodes=2, tasks_per_node=2, timeout_min=5, slurm_partition="main")
    if srun_arguments:
        executor.update_parameters(slurm_srun_args=list(srun_arguments))
    print(executor.submit(rank, notes).job_id)


if __name__ == "__main__":
    main(*sys.argv[1:])
