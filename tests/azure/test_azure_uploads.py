"""Code and inputs in a workspace: once by content, whatever breaks off or comes at the same time."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure.core.credentials import AccessToken
from azureml_double.double import Double, names_resolved, until
from sdk import run_script
from workspace_client import WorkspaceClient

from worldsize.errors import JobError, SnapshotError, SubmitRejected
from worldsize.wings.azure.storage.code_asset import upload_code
from worldsize.wings.azure.storage.content import folder_content
from worldsize.wings.azure.storage.data_asset import upload_input
from worldsize.wings.azure.storage.datastore import open_datastore
from worldsize.wings.azure.workspace.errors import MissingResource

ROOT = Path(__file__).parents[2]
STORE = "azureml://datastores/workspaceblobstore/paths/"
Uploads = Callable[[], list[str]]


@pytest.fixture
def client(double: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspaceClient]:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", double.ca_file)
    with names_resolved():
        yield WorkspaceClient(double)


@pytest.fixture
def uploads(double: Double) -> Uploads:
    """The requests that have carried content since the test began."""
    before = len(double.requests())
    return lambda: [each for each in double.requests()[before:] if each.startswith("PUT") and "/providers/" not in each]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder whose content no other test has."""
    folder = tmp_path / "code"
    (folder / "sub dir").mkdir(parents=True)
    (folder / "train.py").write_text("print(open('sub dir/ü.txt').read())\n")
    (folder / "sub dir" / "ü.txt").write_text(str(tmp_path))
    (folder / "empty").write_text("")
    return folder


def code_path(folder: Path) -> str:
    return "/codes/worldsize-%s/versions/1" % folder_content(str(folder)).digest


def test_code_is_uploaded_once_and_runs(double: Double, client: WorkspaceClient, uploads: Uploads, code: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = upload_code(client, str(code), progress=lambda done, total: seen.append((done, total)))
    assert found == double.scope + code_path(code)
    size = folder_content(str(code)).size
    assert (seen[0], seen[-1]) == ((0, size), (size, size))
    assert len(uploads()) == 3
    assert upload_code(client, str(code)) == found
    assert len(uploads()) == 3
    double.submit("uploaded-code", "python train.py", codeId=found)
    assert double.wait("uploaded-code")["status"] == "Completed"
    assert double.artifact("uploaded-code", "user_logs/std_log.txt").decode().strip() == str(code.parent)


def test_an_input_is_uploaded_once_and_mounted(
    double: Double, client: WorkspaceClient, uploads: Uploads, code: Path
) -> None:
    folder, file = upload_input(client, str(code)), upload_input(client, str(code / "train.py"))
    content = folder_content(str(code))
    assert folder == "%sworldsize/%s/" % (STORE, content.digest)
    assert file == "%sworldsize/%s/train.py" % (STORE, content.files[-1].digest)
    assert len(uploads()) == 4
    assert [upload_input(client, str(path)) for path in (code, code / "train.py")] == [folder, file]
    assert len(uploads()) == 4
    inputs = {
        "folder": {"jobInputType": "uri_folder", "uri": folder},
        "file": {"jobInputType": "uri_file", "uri": file},
    }
    double.submit("mounted", "cd ${{inputs.folder}} && python ${{inputs.file}}", inputs=inputs)
    assert double.wait("mounted")["status"] == "Completed"


IGNORED = (
    *(["*"], ["*.py"], ["sub dir/"], ["/train.py", "empty"], ["*", "!*.py"], ["sub dir", "!sub dir/ü.txt"], [""]),
    *(["**/ü*"], ["# train.py", "\\#x"], ["sub dir/*", "!ü.txt"], ["train.py "], ["[et]*"], ["!train.py"]),
)


@pytest.mark.exhaustive
def test_what_an_ignore_file_leaves_out_is_what_azures_client_leaves_out(
    double: Double, code: Path, tmp_path: Path
) -> None:
    (code / "sub dir" / ".gitignore").write_text("*\n")
    script = "from azure.ai.ml._utils import _asset_utils as utils\n"
    ours = {}
    for number, lines in enumerate(IGNORED):
        folder = tmp_path / str(number)
        shutil.copytree(code, folder)
        (folder / ".gitignore").write_text("*" if number % 2 else "\n".join(lines))
        if number % 2:
            (folder / ".amlignore").write_text("\n".join(lines))
        script += (
            "files = utils.get_upload_files_from_folder(%r, ignore_file=utils.get_ignore_file(%r))\n"
            "tell('%d', sorted(name for _, name in files))\n"
        ) % (str(folder), str(folder), number)
        ours[str(number)] = sorted(file.name for file in folder_content(str(folder), ignores=True).files)
    assert run_script(double, script, tmp_path / "results").values == ours


@pytest.mark.exhaustive
def test_what_a_killed_client_has_sent_is_not_sent_again(
    double: Double, client: WorkspaceClient, uploads: Uploads, code: Path
) -> None:
    double.fault("train.py", method="PUT", status=500, delay=60)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from azureml_double.double import Double\n"
        "from workspace_client import WorkspaceClient\n"
        "from worldsize.wings.azure.storage.data_asset import upload_input\n"
        "double = Double(None, '', sys.argv[2]); double.url, double.ca_file = sys.argv[3:5]\n"
        "upload_input(WorkspaceClient(double), sys.argv[5])\n"
    )
    arguments = [str(Path(__file__).parent), double.token, double.url, double.ca_file, str(code)]
    environ = {**os.environ, **double.environ(str(ROOT / "src"))}
    killed = subprocess.Popen([sys.executable, "-c", script, *arguments], env=environ)
    try:
        until(uploads, lambda found: len(found) == 3, 60)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert upload_input(client, str(code)).startswith(STORE)
    names = [each.split()[1].rpartition("/")[2] for each in uploads()[3:]]
    assert names == ["train.py"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_code_that_was_not_uploaded_whole_is_no_asset(
    double: Double, client: WorkspaceClient, code: Path, method: str
) -> None:
    double.fault("train.py|startPendingUpload", method=method, status=403)
    with pytest.raises(SubmitRejected):
        upload_code(client, str(code))
    with pytest.raises(MissingResource):
        client.get(code_path(code))
    assert upload_code(client, str(code)) == double.scope + code_path(code)


@pytest.mark.exhaustive
def test_of_two_clients_at_once_one_registers_and_both_have_it(
    double: Double, client: WorkspaceClient, code: Path
) -> None:
    other: list[str] = []

    def race(done: int, total: int) -> None:
        if done == total:
            other.append(upload_code(WorkspaceClient(double), str(code)))

    assert upload_code(client, str(code), progress=race) == other[0]
    answers = [each.split()[-1] for each in double.requests() if each.startswith("PUT") and code_path(code) in each]
    assert answers == ["201", "409"]


@pytest.mark.exhaustive
def test_a_large_file_of_two_clients_at_once_is_whole(
    double: Double, client: WorkspaceClient, uploads: Uploads, tmp_path: Path
) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(1 << 20) * 20 + b"end")
    other: list[str] = []

    def race(done: int, total: int) -> None:
        if done == total and not other:
            other.append(upload_input(WorkspaceClient(double), str(large)))

    uri = upload_input(client, str(large), progress=race)
    assert [uri] == other
    with open_datastore(client) as container:
        name = uri.removeprefix(STORE)
        assert b"".join(container.chunks(name)) == large.read_bytes()
        assert b"".join(container.chunks(name, offset=20 << 20)) == b"end"
    before = len(uploads())
    assert upload_input(client, str(large)) == uri
    assert len(uploads()) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [10, 9 << 20])
def test_a_file_that_changes_meanwhile_is_not_taken(client: WorkspaceClient, tmp_path: Path, size: int) -> None:
    file = tmp_path / "data"
    file.write_bytes(os.urandom(size))
    with pytest.raises(SnapshotError, match="changed"):
        upload_input(client, str(file), progress=lambda done, total: file.write_bytes(os.urandom(size)) and None)
    with open_datastore(client) as container:
        assert not [blob for blob in container.find("worldsize").values() if blob.size == size]


@pytest.mark.exhaustive
def test_a_signature_that_has_ended_is_renewed(double: Double, client: WorkspaceClient, code: Path) -> None:
    before = len(double.requests())
    for name in ("train.py", "empty"):  # one file may be put twice before the other is put at all
        double.fault("/worldsize/.*/%s$" % name, method="PUT", status=403)
    upload_input(client, str(code))
    asked = [each for each in double.requests()[before:] if "listSecrets" in each]
    assert 2 <= len(asked) <= 3


class Identity:
    """A credential as azure-identity has them."""

    asked = 0

    def get_token(self, *scopes: str, **options: object) -> AccessToken:
        self.asked += 1
        return AccessToken("any", int(time.time()) + 3600)


@pytest.mark.exhaustive
def test_where_secrets_may_not_be_seen_the_users_login_serves(
    double: Double, client: WorkspaceClient, code: Path
) -> None:
    double.fault("listSecrets", status=403, times=2)
    with pytest.raises(SubmitRejected):
        upload_input(client, str(code))
    identity = Identity()
    assert upload_input(client, str(code), identity).startswith(STORE)
    assert identity.asked


@pytest.mark.exhaustive
def test_no_signature_is_told(
    double: Double, client: WorkspaceClient, code: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    double.fault("train.py", method="PUT", status=403, times=9)
    with pytest.raises(SubmitRejected) as refused:
        upload_code(client, str(code))
    with pytest.raises(SubmitRejected) as again, open_datastore(client) as container:
        double.fault("azureml-blobstore-double", status=403, times=9)
        container.find("")
    told = caplog.text + repr(refused.value) + str(refused.value) + str(again.value) + repr(container)
    assert "train.py" in caplog.text
    assert "sig=***" in told
    assert not [each for each in told.split("sig=")[1:] if not each.startswith(("***", "REDACTED"))]


@pytest.mark.exhaustive
def test_a_folder_comes_back_as_it_was(double: Double, client: WorkspaceClient, code: Path, tmp_path: Path) -> None:
    uri, target = upload_input(client, str(code)), tmp_path / "back"
    double.fault("train.py", method="GET", cut=3)
    seen: list[tuple[int, int]] = []
    with open_datastore(client) as container:
        found = container.find(uri.removeprefix(STORE))
        wanted = {str(target) + name: blob for name, blob in found.items()}
        container.download(wanted, lambda done, total: seen.append((done, total)))
    content = folder_content(str(code))
    assert list(found) == ["/" + file.name for file in content.files]
    assert folder_content(str(target)).digest == content.digest
    assert seen[-1] == (content.size, content.size)


@pytest.mark.exhaustive
def test_what_has_no_file_is_refused(client: WorkspaceClient, tmp_path: Path) -> None:
    for upload in (upload_code, upload_input):
        with pytest.raises(JobError, match="has no file"):
            upload(client, str(tmp_path))
    with pytest.raises(JobError, match="no such file"):
        upload_input(client, str(tmp_path / "missing"))
    with pytest.raises(MissingResource, match="datastore none"):
        open_datastore(client, "none")
