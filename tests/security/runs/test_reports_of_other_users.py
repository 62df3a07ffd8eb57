"""Pages of other users' runs hold nothing of whoever makes them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from driver import Cli
from security.people import Machine, Person

FAIL = "import os\nprint('is it correct-horse-battery?')\nif os.environ['RANK'] == '1':\n    raise ValueError('fell')\n"


@pytest.fixture
def theirs(attacker: Person, machine: Machine) -> Path:
    """A failed run of the attacker's that everybody can read."""
    attacker.write("fail.py", FAIL)
    attacker("run", "-q", "-w", "1x2", "--", "python", "fail.py")
    (run,) = [name for name in os.listdir(os.path.join(attacker.home, "runs")) if name.startswith("2")]
    path = Path(machine.directory(0o755, attacker.uid), run)
    shutil.copytree(os.path.realpath(attacker.path(run)), path, symlinks=True)
    for found in (path, *path.rglob("*")):
        os.chown(found, attacker.uid, attacker.uid, follow_symlinks=False)
        if not found.is_symlink():
            os.chmod(found, 0o755)
    return path


def test_what_their_records_name_is_not_read(victim: Cli, theirs: Path) -> None:
    mine = victim.write("mine.json", json.dumps({"message": "PRIVATE: words"}))
    os.chmod(mine, 0o600)
    plan = json.loads((theirs / "plan.json").read_text())
    plan["environment"] = {**(plan["environment"] or {}), "TORCHELASTIC_ERROR_FILE": mine}
    plan["secrets"] = ["MY_WORD"]
    (theirs / "plan.json").write_text(json.dumps(plan))
    for error in (theirs / "attempt-0" / "errors").iterdir():
        error.unlink()
    made = victim("report", str(theirs), MY_WORD="correct-horse-battery")
    page = Path(victim.project, theirs.name + ".html")
    assert made.code == 0 and page.stat().st_mode & 0o777 == 0o600, made
    text = page.read_text()
    assert ">FAILED<" in text and "PRIVATE" not in text
    assert text.count("is it correct-horse-battery?") >= 2, "what they guessed is not confirmed by a mask"


MORE = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("code.diff", "attempt-0/logs/new.log")]


@pytest.mark.parametrize("name", ["job.yml", *MORE])
def test_a_link_to_a_file_of_ones_own(victim: Cli, attacker: Person, theirs: Path, name: str) -> None:
    mine = victim.write("mine.txt", "PRIVATE")
    script = "import os, sys; os.path.lexists(sys.argv[2]) and os.unlink(sys.argv[2]); os.symlink(*sys.argv[1:])"
    attacker.python(script, mine, str(theirs / name))
    refused = victim("report", str(theirs))
    assert refused.code == 2 and "link in it leads elsewhere" in refused.err, refused
    assert not Path(victim.project, theirs.name + ".html").exists()
