"""What a submission costs beyond sbatch's own: one run of a small code folder, and 500 runs in one call.

The jobs only wait (`--begin=now+1hour`), so that nothing but submissions happens. The code is a folder of 20 modules,
of which one is changed before each submission, as between two of a day's work. Before it submits, worldsize asks Slurm
with `sbatch --test-only` whether it would take the job; what such a call takes is measured on its own, in the same
rounds, and taken off for the limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from harness import Bench, contest_rows, interval, ratio, rounds
from slurm_bed import LATER, Bed

RUNS = 500
MODULES = 20
_FUNCTIONS = "".join("def step_%d(x: float) -> float:\n    return x * %d\n\n\n" % (n, n) for n in range(40))
_JOB = """\
command: python train.py --lr ${{inputs.lr}} --seed ${{inputs.seed}}
code: .
inputs: {lr: 0.1, seed: 0}
"""
_MATRIX = "matrix: {lr: [%s], seed: [%s]}\n" % (
    ", ".join("%g" % (0.01 * n) for n in range(1, 6)),
    ", ".join("%d" % n for n in range(RUNS // 5)),
)
_PLAIN = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --begin=now+1hour\nsrun python train.py\n"

SUBMIT, SBATCH, TEST_ONLY = "worldsize submit job.yml", "sbatch job.sh", "sbatch --test-only job.sh"
MATRIX, ARRAY = "worldsize submit matrix.yml (%d runs)" % RUNS, "sbatch --array=0-%d job.sh" % (RUNS - 1)


def contest(bench: Bench, bed: Bed) -> dict[str, dict[str, list[float]]]:
    """Seconds by contestant and round; puts tables and limits into `bench`."""
    files = {"module_%d.py" % number: '"""Module %d."""\n\n\n' % number + _FUNCTIONS for number in range(MODULES)}
    files.update({"train.py": "pass\n", "job.yml": _JOB, "matrix.yml": _JOB + _MATRIX, "job.sh": _PLAIN})
    project = bed.project("submit", files, LATER)
    edits = 0

    def edited(*argv: str) -> Callable[[], float]:
        def measure() -> float:
            nonlocal edits
            edits += 1
            bed.write(os.path.join(project, "train.py"), "edit = %d\n" % edits)
            return bed.run(*argv, cwd=project)

        return measure

    one = rounds(
        {
            SUBMIT: edited(bed.worldsize, "submit", "job.yml", "-w", "2x2"),
            SBATCH: edited("sbatch", "job.sh"),
            TEST_ONLY: edited("sbatch", "--test-only", "job.sh"),
        },
        bench.count(40, 5),
    )
    bed.cancel_all()

    def cleared(measure: Callable[[], float]) -> Callable[[], float]:
        def clear() -> float:
            took = measure()
            bed.cancel_all()
            return took

        return clear

    many = rounds(
        {
            MATRIX: cleared(edited(bed.worldsize, "submit", "matrix.yml", "-w", "2x2")),
            ARRAY: cleared(edited("sbatch", "--array=0-%d" % (RUNS - 1), "job.sh")),
            TEST_ONLY: edited("sbatch", "--test-only", "job.sh"),
        },
        bench.count(10, 2),
    )
    report(bench, "Submission of one run", one, SUBMIT, SBATCH, 150)
    bench.limit("%s, over %s" % (SUBMIT, SBATCH), ratio(one, SUBMIT, SBATCH).median, 10)
    report(bench, "Submission of %d runs in one call" % RUNS, many, MATRIX, ARRAY, 1000)
    return {"one": one, "many": many}


def report(bench: Bench, title: str, sample: dict[str, list[float]], ours: str, plain: str, most: float) -> None:
    bench.table(title, ["command", "median ms", "10 % to 90 %", "over " + plain], contest_rows(sample, [plain]))
    more = [(a - b) * 1e3 for a, b in zip(sample[ours], sample[plain], strict=True)]
    asking = [seconds * 1e3 for seconds in sample[TEST_ONLY]]
    without = interval([a - b for a, b in zip(more, asking, strict=True)])
    rows = [["with its --test-only", str(interval(more))], ["without", str(without)]]
    bench.table("What worldsize adds to %s" % plain, ["counted", "ms more"], rows)
    bench.limit("%s, over %s, without --test-only" % (ours, plain), without.median, most, "ms more")
