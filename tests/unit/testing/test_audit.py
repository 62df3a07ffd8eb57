from __future__ import annotations

from scripts.audit import findings


def test_what_was_left_out_is_a_finding() -> None:
    """pip-audit itself ends with 0 then, and says that it has found nothing."""
    advisory = {"id": "PYSEC-2026-1", "fix_versions": ["1.3", "2.0"]}
    report = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "unknown", "skip_reason": "Dependency not found on PyPI"},
            {"name": "bad", "version": "1.2", "vulns": [advisory, {"id": "CVE-1", "fix_versions": []}]},
        ]
    }
    assert list(findings(report)) == [
        "unknown was left out: Dependency not found on PyPI",
        "bad 1.2: PYSEC-2026-1, mended in 1.3, 2.0",
        "bad 1.2: CVE-1, mended in no version yet",
    ]


def test_a_report_about_nothing() -> None:
    assert list(findings({"dependencies": []})) == ["no package was looked at"]
