"""Inputs by URI, and how data gets to the nodes, as a user sees it: real web server, real runs."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator

import pytest
from driver import Cli, unfolded, wait_for
from webserver import Site, serve

SHA256 = hashlib.sha256(b"0123456789").hexdigest()


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        site.files["/digits.txt"] = b"0123456789"
        yield site


def job(cli: Cli, command: str, world: str = "1x1", **inputs: object) -> str:
    nodes, _, each = world.partition("x")
    size = {"resources": {"instance_count": int(nodes)}, "distribution": {"type": "none"}}
    size["distribution"]["process_count_per_instance"] = int(each)  # type: ignore[index]
    cli.write("job.yml", json.dumps({"command": command, "inputs": inputs, **size}, indent=1))
    return "job.yml"


def texts(cli: Cli) -> list[str]:
    """What the ranks of the latest run or array wrote, without prefixes."""
    return [line.partition(": ")[2] for line in cli.ok("logs").lines]


def a_file(uri: str, **more: object) -> dict[str, object]:
    return {"type": "uri_file", "path": uri, **more}


def test_a_uri_is_fetched_before_the_run_and_once(cli: Cli, site: Site) -> None:
    uri = site.url + "/digits.txt?sig=verysecret"
    job(cli, 'cat ${{inputs.data}}; echo; basename "$WORLDSIZE_INPUT_DATA"', data=a_file(uri))
    first = cli.run("job.yml")
    assert cli.ok("logs", first).lines == ["0:0: 0123456789", "0:0: digits.txt"]
    again = cli("run", "job.yml")
    assert again.code == 0 and "fetching" not in again.err
    assert site.statuses() == [200, 304]
    record = json.loads(cli.read(first, "record.json"))
    assert record["inputs"]["data"]["sha256"] == SHA256
    assert "verysecret" not in json.dumps(record) and uri in cli.read(first, "job.yml")
    assert cli("rerun", first).code == 0 and site.statuses() == [200, 304, 304]


def test_what_cannot_be_fetched_leaves_no_run(cli: Cli, site: Site) -> None:
    cases = [
        (a_file(site.url + "/digit.txt"), 2, "inputs.data.path: %s/digit.txt: 404" % site.url),
        (a_file(site.url + "/digits.txt", sha256="0" * 64), 2, "inputs.data.sha256: %s/digits.txt: its" % site.url),
        (a_file(site.url + "/digits.txt", sha256="123"), 2, "inputs.data.sha256: is not a checksum of 64"),
        (a_file("azureml:data:1"), 2, "inputs.data.path: azureml:data:1 cannot be read here"),
        (a_file("gopher://host/x"), 2, "fsspec does not know gopher://"),
        ({"type": "uri_folder", "path": site.url + "/digits.txt"}, 2, "set type: uri_file"),
    ]
    for data, code, said in cases:
        job(cli, "cat ${{inputs.data}}", data=data)
        result = cli("run", "job.yml")
        assert result.code == code and said in result.err and "job.yml:" in result.err, result
        assert not os.path.exists(os.path.join(cli.home, "runs")) or not os.listdir(os.path.join(cli.home, "runs"))
    pip = cli("run", job(cli, "true", data=a_file("s3://bucket/x")))
    assert pip.code == 2 and "pip install 'worldsize[s3]'" in pip.err


def test_a_local_file_has_its_checksum_too(cli: Cli) -> None:
    path = cli.write("data.bin", "0123456789")
    job(cli, "true", data=a_file("data.bin", sha256=SHA256))
    cli.run("job.yml")
    with open(path, "a") as file:
        file.write("x")
    refused = cli("run", "job.yml")
    assert refused.code == 2 and "inputs.data.sha256: %s: its sha256 is" % path in refused.err


def test_a_dry_run_fetches_nothing(cli: Cli, site: Site) -> None:
    job(cli, "cat ${{inputs.data}}", data=a_file(site.url + "/digits.txt"))
    assert site.url + "/digits.txt" in cli.ok("run", "job.yml", "--dry-run").out
    assert site.asked == [] and not os.path.exists(cli.home)


def test_an_interrupted_fetch_leaves_no_run_and_is_gone_on_with(cli: Cli, site: Site) -> None:
    content = os.urandom(1 << 20)
    site.files["/big.bin"] = content
    site.breaks = [500_000, *[0] * 20]
    job(cli, "sha256sum < ${{inputs.data}}", data=a_file(site.url + "/big.bin"))
    process = cli.start("run", "job.yml")
    wait_for(lambda: len(site.asked) >= 2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130 and out == b""
    assert not os.path.exists(os.path.join(cli.home, "runs"))
    site.breaks = []
    run = cli.run("job.yml")
    assert site.asked[-1].headers["range"] == "bytes=500000-"
    assert hashlib.sha256(content).hexdigest() in cli.ok("logs", run).out


def test_all_runs_of_an_array_use_one_copy(cli: Cli, site: Site) -> None:
    job(cli, "cat ${{inputs.data}}; echo ${{inputs.lr}}", data=a_file(site.url + "/digits.txt"), lr=1)
    result = cli("run", "job.yml", "--matrix", "lr=1,2")
    assert result.code == 0 and site.statuses() == [200] and "fetching" in result.err
    assert sorted(texts(cli)) == ["01234567891", "01234567892"]


# copies on the nodes


def local_disk(cli: Cli) -> str:
    """A directory that stands for each node's own disk."""
    disk = os.path.join(cli.root, "disk")
    os.makedirs(disk, exist_ok=True)
    cli.write("worldsize.toml", '[compute.local]\nlocal_dir = "$DISK"\n')
    cli.environ["DISK"] = disk
    return disk


def left(disk: str) -> list[str]:
    """The files on a node's disk. The node's agent removes those of a run after it has recorded the run's end."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(disk) for name in names]


def test_download_copies_to_the_nodes_disk_and_clears_up(cli: Cli, site: Site) -> None:
    disk = local_disk(cli)
    cli.write("set/deep/a.txt", "a")
    command = 'cat ${{inputs.folder}}/deep/a.txt ${{inputs.web}}; echo; echo "${{inputs.folder}} $WORLDSIZE_LOCAL_DIR"'
    job(
        cli,
        command,
        "2x2",
        folder={"path": "set", "mode": "download"},
        web=a_file(site.url + "/digits.txt", mode="download"),
    )
    result = cli("run", "job.yml", "--fold", "off")
    assert result.code == 0, result
    run = cli.latest()
    place = "%s/worldsize-%d/runs/%s.0" % (disk, os.getuid(), run)
    expected = ["a0123456789", "%s/inputs/folder/set %s" % (place, place)]
    assert [line.split(": ")[1] for line in result.lines if line.startswith("1:3")] == expected
    assert len(result.lines) == 8
    wait_for(lambda: left(disk) == [])
    preview = cli.ok("run", "job.yml", "--dry-run").out
    assert "<local>/inputs/folder/set" in preview and "@" not in preview.partition("# the job's")[2]


def test_runs_of_an_array_copy_their_own(cli: Cli) -> None:
    disk = local_disk(cli)
    cli.write("set/a.txt", "a")
    job(cli, "cat ${{inputs.data}}/a.txt; echo ${{inputs.lr}}", data={"path": "set", "mode": "download"}, lr=1)
    result = cli("run", "job.yml", "--matrix", "lr=1,2", "--at-once", "2")
    assert result.code == 0 and sorted(texts(cli)) == ["a1", "a2"]
    wait_for(lambda: left(disk) == [])


def test_a_node_that_cannot_copy_fails_the_run_and_says_why(cli: Cli) -> None:
    disk = local_disk(cli)
    cli.write("set/a.txt", "a")
    job(cli, "touch outputs/up", "2x1", data={"path": "set", "mode": "download"})
    own = os.path.join(disk, "worldsize-%d" % os.getuid())
    os.mkdir(own, 0o777)
    os.chmod(own, 0o777)
    result = cli("run", "job.yml")
    assert result.code == 1 and "%s: its content cannot be trusted" % own in result.err, result
    run = cli.latest()
    status = cli.status(run)
    assert (status["state"], status["reason"]) == ("FAILED", "ENVIRONMENT")
    assert not os.path.exists(cli.path(run, "outputs", "up"))


def test_a_cancel_while_copying_is_heard(cli: Cli) -> None:
    """The copy would take for ever: of a file that is all holes, larger than any disk here."""
    disk = local_disk(cli)
    endless = os.path.join(cli.root, "endless")
    with open(endless, "wb") as file:
        file.truncate(1 << 42)
    job(cli, "true", "1x1", data=a_file(endless, mode="download"))
    run = cli.submit("job.yml")
    wait_for(lambda: sum(map(os.path.getsize, left(disk))) > 3)
    cli.ok("cancel", run)
    assert cli("wait", run, "--timeout", "30").code == 130
    wait_for(lambda: left(disk) == [])


def test_a_copy_of_what_is_no_file_is_refused(cli: Cli) -> None:
    """A pipe would be waited for."""
    disk = local_disk(cli)
    pipe = os.path.join(cli.root, "pipe")
    os.mkfifo(pipe)
    job(cli, "true", "1x1", data=a_file(pipe, mode="download"))
    failed = cli("run", "-q", "job.yml")
    assert failed.code == 1 and "input data could not be prepared" in failed.err
    assert "it is not a regular file" in failed.err
    wait_for(lambda: left(disk) == [])


def test_ro_mount_cannot_be_written_to(cli: Cli) -> None:
    """As root or where the system lets users have namespaces; elsewhere it is said, and nothing changes."""
    cli.write("set/a.txt", "a")
    command = "cat ${{inputs.data}}/a.txt; echo; touch ${{inputs.data}}/b 2>/dev/null || echo refused"
    job(cli, command, "2x1", data={"path": "set", "mode": "ro_mount"})
    result = cli("run", "job.yml")
    assert result.code == 0, result
    if "notice: job.yml" in result.err:
        assert "not read-only on this machine" in result.err
        pytest.skip("this machine allows no read-only mounts")
    assert unfolded(result.lines) == ["a", "a", "refused", "refused"]
    cli.write("set/b.txt", "still ours")


def test_ro_mount_leaves_the_run_writable(cli: Cli) -> None:
    job(cli, "touch ${{inputs.data}}/b outputs/c && echo written", data={"path": cli.root, "mode": "ro_mount"})
    result = cli("run", "job.yml")
    assert result.code == 0 and result.lines == ["0:0: written"]
    events = cli.read(cli.latest(), "attempt-0", "events", "node-0000.jsonl")
    assert "contains the run directory" in events
