"""The module files of the page for a site's administrators: what a user has after `module load worldsize`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import blocks, environment, find_page

from worldsize.plan.setup_script import MODULE_LINES

PREFIX = "/opt/apps/worldsize"
PAGE = find_page("site.md")


def text_of(language: str) -> str:
    (text,) = [block.text for block in blocks(PAGE) if block.language == language]
    return text


@pytest.mark.timeout(60)
def test_the_module_gives_the_command_and_the_sites_file(tmp_path: Path) -> None:
    if subprocess.call(["bash", "-c", "\n".join([*MODULE_LINES, "type module >/dev/null 2>&1"])]):
        pytest.skip("no environment modules here")
    prefix = tmp_path / "apps"
    module = tmp_path / "modulefiles" / "worldsize" / "0.1.0"
    for directory in (prefix / "bin", module.parent):
        directory.mkdir(parents=True)
    module.write_text(text_of("tcl").replace(PREFIX, str(prefix)))
    shim = prefix / "bin" / "worldsize"
    shim.write_text('#!/bin/sh\nexec "%s" -m worldsize "$@"\n' % sys.executable)
    shim.chmod(0o755)
    (config,) = [block.text for block in blocks(PAGE) if block.file_name == "config.toml"]
    (prefix / "config.toml").write_text(config)
    lines = [*MODULE_LINES, "module use %s" % module.parents[1], "module load worldsize", "command -v worldsize"]
    environ = environment(tmp_path / "home")
    words = ["bash", "-c", "\n".join([*lines, "worldsize config show --origin"])]
    done = subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, text=True)
    found = done.stdout.splitlines()
    assert done.returncode == 0 and found[0] == str(shim), done
    origins = {line.split()[0]: line.split()[-1] for line in found[1:]}
    assert origins["default_compute"] == origins["defaults.limits.timeout"] == str(prefix / "config.toml")
    assert origins["forbidden.1"] == "%s:16" % (prefix / "config.toml")


def test_the_lua_file_has_the_same_values() -> None:
    tcl = re.findall(r"^(prepend-path|setenv) (\S+) (\S+)$", text_of("tcl"), re.MULTILINE)
    lua = re.findall(r'^(prepend_path|setenv)\("(.*?)", "(.*?)"\)$', text_of("lua"), re.MULTILINE)
    assert len(tcl) == 2 and lua == [(name.replace("-", "_"), *values) for name, *values in tcl]
