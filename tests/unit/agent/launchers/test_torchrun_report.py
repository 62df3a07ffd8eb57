"""torchrun's own report: it stands at the end of its log, however long that is."""

from worldsize.agent.launchers.torchrun import root_cause
from worldsize.common.atomic_files import MAX_RECORD_BYTES

REPORT = """
Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_20:00:00
  host      : node1
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 4711)
"""


def test_the_first_failure_is_read_from_a_log_of_any_length(tmp_path):
    log = tmp_path / "log"
    log.write_text(REPORT)
    known = root_cause(str(log))
    assert (known.rank, known.code) == (3, 137)
    with open(log, "wb") as file:
        file.truncate(MAX_RECORD_BYTES + 1)
        file.seek(0, 2)
        file.write(REPORT.encode())
    assert root_cause(str(log)) == known


def test_a_log_without_a_report_names_none(tmp_path):
    log = tmp_path / "log"
    log.write_text("Root Cause (first observed")
    assert root_cause(str(log)) is None and root_cause(str(tmp_path / "gone")) is None
