"""Write the table of docs/reference/variables.md anew from the one in the code: `python scripts/document_environment.py`."""

from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "environment.md")
BEGIN = "<!-- the tables: python scripts/document_environment.py -->\n"
END = "<!-- end of the tables -->\n"
TITLES = {
    "worldsize": "worldsize's own, always set",
    "torch": "`torch`: PyTorch and torchrun",
    "azureml": "`azureml`: Azure Machine Learning and Azure Batch",
    "slurm": "`slurm`: what `srun` gives each task",
    "openmpi": "`openmpi`: what `mpirun` gives each process",
    "jax": "`jax`: JAX, in addition to Slurm's",
    "hpcpack": "`hpcpack`: Microsoft HPC Pack",
    "horovod": "Horovod, with `distribution: {type: horovod}`",
    "tensorflow": "TensorFlow, with `distribution: {type: tensorflow}`",
    "ray": "Ray, with `distribution: {type: ray}`",
}


def tables() -> str:
    """One table per convention, in the order of the code, each variable with what it holds."""
    from worldsize.plan.rank_variables import VARIABLES

    parts = []
    for convention in dict.fromkeys(variable.convention for variable in VARIABLES):
        rows = ["| `%s` | %s |" % (v.name, v.meaning) for v in VARIABLES if v.convention == convention]
        parts.append("### %s\n\n| variable | holds |\n| --- | --- |\n%s\n" % (TITLES[convention], "\n".join(rows)))
    return "\n".join(parts)


def main() -> int:
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("%s%s\n%s\n%s%s" % (head, BEGIN, tables(), END, tail))
    return 0


if __name__ == "__main__":
    sys.exit(main())
