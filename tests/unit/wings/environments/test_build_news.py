"""What is told while an environment is built shows no password."""

from __future__ import annotations

from pathlib import Path

from worldsize.wings.environments.workspace.builder import Build, ensure_built

TEXT = "fetching git+https://anna:Canary@host/x.git with --token Canary"
SHOWN = "fetching git+https://anna:***@host/x.git with --token ***"


def test_a_builds_steps_and_news(tmp_path: Path) -> None:
    """Its log, who watches, and the note for those who wait."""
    told: list[str] = []
    notes: list[str] = []

    def make(work: Build) -> dict[str, object]:
        work.report_step(TEXT)
        work.report_progress(TEXT)
        notes.extend(path.read_text() for path in tmp_path.rglob("*.lock"))
        assert SHOWN in Path(work.log_path).read_text() and "Canary" not in Path(work.log_path).read_text()
        return {}

    (tmp_path / "envs").mkdir(0o700)
    ensure_built(str(tmp_path / "envs" / "env"), make, told.append)
    assert told == [SHOWN, SHOWN] and notes and not any("Canary" in note for note in notes)
    Build(str(tmp_path), told.append).report_step(TEXT)
    assert told[2:] == [SHOWN] and "Canary" not in (tmp_path / "log").read_text()
