"""Jobs of offline nodes, and what is found in them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from worldsize.wings.checks.script.findings import downloads
from worldsize.wings.checks.script.request import ScriptFinding, ScriptRequest

HINTS = {
    "huggingface": "stage: {huggingface: [%s]}",
    "torch_hub": "stage: {torch_hub: [%s]}",
    "pip": "stage: {pip: requirements.txt}, or build it into the environment",
    "data": "name the data as an input, or under stage: {data: …}",
    "service": "build it into the environment",
    "wandb": "set WANDB_MODE=offline, and `wandb sync` afterwards",
}
OFFLINE = "would fail: the nodes reach no network"


HF = "from transformers import AutoModel\n"
WEB = "import os, sys, requests, argparse\n"
ARGS = WEB + "p = argparse.ArgumentParser()\np.add_argument('--fetch', action='store_true')\na = p.parse_args()\n"
GET = "requests.get('https://data.example.org/x')"


def still() -> float:
    return 0.0


def offline(tmp_path: Path, *texts: str, **said: Any) -> ScriptRequest:
    return ScriptRequest(str(tmp_path), (), texts=texts, offline=True, **said)


def found_in(tmp_path: Path, script: str, command: str = "python train.py", **files: str) -> list[ScriptFinding]:
    for name, text in {"train.py": script, **files}.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    found = downloads(offline(tmp_path, command), still)
    assert all(each.id == "script.downloads" and each.what.endswith(" " + OFFLINE) for each in found)
    return found


def hint_of(kind: str, name: str) -> str:
    return HINTS[kind] % (name or "…") if "%s" in HINTS[kind] else HINTS[kind]
