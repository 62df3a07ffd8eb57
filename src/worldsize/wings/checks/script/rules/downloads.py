"""Rule for downloads on nodes that reach no network, for objects that are not staged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

from worldsize.state.check_rows import BAD, WARNING
from worldsize.trust.secrets import mask_text
from worldsize.wings.checks.script.downloads.download import Download
from worldsize.wings.checks.script.downloads.reading import downloads_in_text, downloads_of, scripts_in_text
from worldsize.wings.checks.script.downloads.staged import is_kept_offline, is_staged, may_lie_elsewhere
from worldsize.wings.checks.script.reading.command_line import ScriptCommand
from worldsize.wings.checks.script.reading.program import read_partly
from worldsize.wings.checks.script.reading.shell_text import variables_set_in
from worldsize.wings.checks.script.reading.sources import Bounds
from worldsize.wings.checks.script.request import ScriptFinding, ScriptRequest

ID = "script.downloads"
_MOST_SHOWN = 8
_BOUNDS = Bounds(300, 2.0)
"""Bounds that are larger than those of the other rules. Files that are not read do not make findings about downloads
wrong, and only jobs on offline nodes need the time."""

_HINTS = {
    "huggingface": "stage: {huggingface: [%s]}",
    "torch_hub": "stage: {torch_hub: [%s]}",
    "pip": "stage: {pip: requirements.txt}, or build it into the environment",
    "data": "name the data as an input, or under stage: {data: …}",
    "service": "build it into the environment",
    "wandb": "set WANDB_MODE=offline, and `wandb sync` afterwards",
}
Place = tuple[str, int]


def download_findings(request: ScriptRequest, clock: Callable[[], float]) -> list[ScriptFinding]:
    """Return a ScriptFinding for each of the first eight downloads of the job's commands and scripts that are not
    staged, and one for all others; an empty list if the nodes are not offline."""
    if not request.offline:
        return []
    known = {*request.environ, *(name for text in request.texts for name in variables_set_in(text))}
    missing = [
        (place, found)
        for place, found in dict.fromkeys(_downloads(request, clock, known))
        if not is_staged(found, request.stage) and not may_lie_elsewhere(found, known)
    ]
    shown = [_finding(*each) for each in missing[:_MOST_SHOWN]]
    more = missing[_MOST_SHOWN:]
    if more:
        (file, line), _ = more[0]
        verdict = BAD if any(found.sure for _, found in more) else WARNING
        what = "{} more download{} would fail on the nodes".format(len(more), "s" if len(more) > 1 else "")
        shown.append(ScriptFinding(ID, file, line, what, verdict, "see the hints of the others"))
    return shown


def _downloads(request: ScriptRequest, clock: Callable[[], float], known: set[str]) -> Iterator[tuple[Place, Download]]:
    for text in request.texts:
        yield from ((("", 0), found) for found in downloads_in_text(text) if not is_kept_offline(found, known))
    end = clock() + 2 * _BOUNDS.seconds
    scripts = [script for text in request.texts for script in scripts_in_text(text)]
    for script in {(each.directory, each.script, each.module): each for each in scripts}.values():
        if clock() > end:
            return
        yield from _in_script(request, script, known, clock)


def _in_script(
    request: ScriptRequest, script: ScriptCommand, known: set[str], clock: Callable[[], float]
) -> Iterator[tuple[Place, Download]]:
    """Yield pairs ((file, line), Download) for the downloads in a script that are neither kept offline nor available
    elsewhere. A script with an absolute path outside the code is read as a separate program."""
    outside, code = "", os.path.join(os.path.realpath(request.code_dir), "") if request.code_dir else ""
    if os.path.isabs(script.script) and not (code and os.path.realpath(script.script).startswith(code)):
        outside, name = os.path.split(script.script)
        request, script = request._replace(code_dir=outside), script._replace(script=name, directory="")
    program = read_partly(request, script, clock, _BOUNDS)
    if program is None:
        return
    known = known | {str(node.value) for node in program.index.strings}
    places = [(program.index.file_of(node), node.lineno, found) for node, found in downloads_of(program)]
    for file, line, found in sorted(places):
        if not is_kept_offline(found, known) and not may_lie_elsewhere(found, known):
            yield (os.path.join(outside, file), line), found


def _finding(place: Place, download: Download) -> ScriptFinding:
    file, line = place
    what = mask_text(f"{download.what} would fail: the nodes reach no network")
    return ScriptFinding(ID, file, line, what, BAD if download.sure else WARNING, _hint(download))


def _hint(download: Download) -> str:
    hint = _HINTS[download.kind]
    return hint % (_name_for_people(download.name) if download.name else "…") if "%s" in hint else hint


def _name_for_people(name: str) -> str:
    """Return the name of a downloaded object as text for users. A URL is returned without user, password and query,
    which may be secrets."""
    if "://" not in name:
        return name
    try:
        parts = urlsplit(name)
    except ValueError:  # not a valid URL
        return "…"
    plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return mask_text(plain) + ("?…" if parts.query else "")
