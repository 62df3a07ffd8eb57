"""Runs in notebooks: our example as a reader executes it, and the card of a run that changes until its end."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import SOURCE, Cli

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

EXAMPLES = Path(SOURCE).parent / "examples"
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def kernels(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of this Python, with the test's own home of runs and settings of Jupyter."""
    paths = [SOURCE, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    for name, value in cli.environ.items():
        monkeypatch.setenv(name, value)
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


def outputs_of(notebook: Any, cell_id: str) -> list[Any]:
    return list(next(cell for cell in notebook.cells if cell.id == cell_id).outputs)


def printed(notebook: Any, cell_id: str) -> str:
    """What a cell has printed: one output or several, as it comes to the client."""
    return "".join(output.text for output in outputs_of(notebook, cell_id) if output.output_type == "stream")


@pytest.mark.training
def test_the_example_is_executed_from_top_to_bottom(kernels: None) -> None:
    pytest.importorskip("torch")
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "notebook" / "digits.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    where = {"metadata": {"path": str(EXAMPLES / "notebook")}}
    NotebookClient(notebook, timeout=200, kernel_name="python3", resources=where).execute()
    card = outputs_of(notebook, "submit")[0].data
    assert "digits: 2 nodes, 2 ranks on local; world size 2" in card["text/html"]
    assert "experiment: notebook" in card["text/html"] and card["text/plain"].startswith("Run(")
    assert printed(notebook, "wait").endswith(" SUCCEEDED\n")
    assert "accuracy=0." in printed(notebook, "logs")
    assert "'model.pt'" in printed(notebook, "outputs")
    assert int(printed(notebook, "next")) > 1000


class Kernel:
    def __init__(self, client: Any) -> None:
        self._client = client

    def execute(self, code: str) -> str:
        return str(self._client.execute(code))

    def cards(self) -> Iterator[tuple[str, str]]:
        """The cards as they are shown and shown anew: the kind of the message and the HTML. An error ends the test."""
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=100)
            except queue.Empty:
                raise AssertionError("no card came") from None
            assert message["msg_type"] != "error", message["content"]
            if message["msg_type"] in ("display_data", "update_display_data"):
                yield message["msg_type"], message["content"]["data"]["text/html"]


@pytest.fixture
def kernel(kernels: None, tmp_path: Path) -> Iterator[Kernel]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path), startup_timeout=100)
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_card_changes_until_the_run_has_ended_and_the_cell_does_not_wait(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "wait.sh").write_text("echo '<b>ready</b>'; until [ -e %s/go ]; do sleep 0.05; done; exit 3" % tmp_path)
    kernel.execute(
        "from worldsize import command, submit\n"
        "run = submit(command(code='.', command='bash wait.sh', display_name='<script>'))\nrun"
    )
    cards = kernel.cards()
    kind, first = next(cards)
    assert kind == "display_data" and "&lt;script&gt;" in first and "<script" not in first
    assert any("<code>&lt;b&gt;ready&lt;/b&gt;</code>" in html and "RUNNING" in html for _, html in cards)
    (tmp_path / "go").touch()
    last = next(html for kind, html in cards if kind == "update_display_data" and "FAILED" in html)
    assert "rank 0 on node 0" in last and "exited with code 3" in last
    kernel.execute(
        "import threading\n"
        "threads = [each for each in threading.enumerate() if each.name.startswith('worldsize card')]\n"
        "[each.join() for each in threads]\nrun"
    )
    assert next(cards) == ("display_data", last), "of a run that ended it is shown once"


@pytest.mark.exhaustive
def test_the_card_of_an_array_is_a_table(kernel: Kernel) -> None:
    kernel.execute(
        "from worldsize import command, submit\n"
        "array = submit(command(command='exit ${{inputs.code}}', inputs={'code': 0}), matrix={'code': [0, 4]})\narray"
    )
    last = next(html for _, html in kernel.cards() if "FAILED" in html and "1 SUCCEEDED, 1 FAILED" in html)
    assert "code=0" in last and "code=4" in last


def test_without_ipython_nothing_of_it_is_imported(cli: Cli) -> None:
    import subprocess

    program = (
        "import sys\nfrom worldsize import command, submit\nrun = submit(command(command='true'))\nrun.wait()\n"
        "run._repr_html_()\nprint('IPython' in sys.modules)"
    )
    environ = {**os.environ, **cli.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
