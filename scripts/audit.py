"""What is known to be unsafe: in the packages that worldsize brings along (pip-audit), and in its code (bandit).

Exit code: 0 where nothing was found and nothing left out; a package that the service of advisories does not know counts
as a finding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OURS = "worldsize"


def main() -> int:
    code = _audit_code()
    with tempfile.TemporaryDirectory() as folder:
        pins, report = os.path.join(folder, "pins.txt"), os.path.join(folder, "report.json")
        with open(pins, "w") as file:
            file.writelines("%s==%s\n" % each for each in _packages())
        said = _python("pip_audit", "-r", pins, "--no-deps", "--disable-pip", "-f", "json", "-o", report)
        if not os.path.exists(report):
            print("pip-audit ended with code %d and wrote no report" % said)
            return 1
        with open(report, encoding="utf-8") as file:
            found = list(findings(json.load(file)))
    for line in found:
        print(line)
    print("==> packages: %s" % ("%d findings" % len(found) if found else "nothing found, nothing left out"))
    return 1 if found or code else 0


def findings(report: Mapping[str, Any]) -> Iterator[str]:
    """A line for each known vulnerability, and for each package that was not looked at."""
    packages = report["dependencies"]
    if not packages:
        yield "no package was looked at"
    for package in packages:
        if "skip_reason" in package:
            yield "%s was left out: %s" % (package["name"], package["skip_reason"])
        for advisory in package.get("vulns", ()):
            mended = ", ".join(advisory["fix_versions"]) or "no version yet"
            yield "%s %s: %s, mended in %s" % (package["name"], package["version"], advisory["id"], mended)


def _packages() -> list[tuple[str, str]]:
    """(name, version) of all that pip would install today with worldsize and its extras."""
    words = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", ".[all]"]
    report = json.loads(subprocess.check_output([sys.executable, "-m", "pip", *words], cwd=ROOT, text=True))
    found = [(each["metadata"]["name"], each["metadata"]["version"]) for each in report["install"]]
    return [each for each in found if each[0] != OURS]


def _audit_code() -> int:
    code = _python("bandit", "-q", "-r", "src", "-c", "pyproject.toml")
    print("==> code: %s" % ("findings of bandit, see above" if code else "nothing found"), flush=True)
    return code


def _python(module: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
