"""`sbcast` of a batch script on virtual nodes, to a name in a directory where everybody makes files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from security.people import ANNA, BEN, Machine


@pytest.mark.parametrize("force", ["", "--force "])
@pytest.mark.parametrize("kind", ["file", "link", "directory", "link to a directory"])
def test_anothers_file_is_neither_written_nor_executed(machine: Machine, force: str, kind: str) -> None:
    """Found by review: the copy kept its owner, who changed it before it was executed."""
    anna = machine.person(ANNA)
    shared = machine.directory(0o1777)
    target, private = Path(shared, "program"), Path(anna.project, "precious")
    anna.write("precious", "precious\n")
    if kind == "file":
        target.touch()
        target.chmod(0o777)
    elif kind == "directory":
        target.mkdir()
        target.chmod(0o777)
    else:
        target.symlink_to(private if kind == "link" else anna.project)
    os.chown(target, BEN, BEN, follow_symlinks=False)
    anna.write("program", "#!/bin/sh\necho mine\n")
    os.chmod(os.path.join(anna.project, "program"), 0o755)
    anna.write(
        "job.slurm", "#!/bin/bash\n#SBATCH -n 1\nsbcast %sprogram %s || exit 9\nsrun %s\n" % (force, target, target)
    )
    told = anna("run", "-q", "job.slurm")
    assert told.code == 9, told
    assert target.lstat().st_uid == BEN and private.read_text() == "precious\n"
    assert kind != "file" or target.read_text() == ""
    assert kind != "directory" or os.listdir(target) == []
    assert Path(anna.project, "program").read_text() == "#!/bin/sh\necho mine\n"
    anna.close()
