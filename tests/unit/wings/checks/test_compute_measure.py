"""How fast a node computes: what is made of its clocks and its control groups' counters."""

import pytest

from worldsize.wings.checks.agent.measure import compute
from worldsize.wings.checks.agent.measure.compute import Work, compute_speed, figures
from worldsize.wings.checks.agent.measure.throttling import statistics_files, throttled_seconds

V1 = "9:name=systemd:/\n5:cpu,cpuacct:/slurm/job_7/step_0\n4:memory:/other\n"
V1_MOUNT = (
    "30 24 0:26 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
V2 = "0::/system.slice/job\n"
V2_MOUNT = "25 24 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def tree(tmp_path, groups, mounts, files):
    own = tmp_path / "proc/self"
    own.mkdir(parents=True)
    (own / "cgroup").write_text(groups)
    (own / "mountinfo").write_text(mounts)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(tmp_path)


def seconds(root):
    return throttled_seconds(statistics_files(root))


def test_a_group_above_that_is_throttled_counts_of_version_1(tmp_path):
    files = {
        "sys/fs/cgroup/cpu/slurm/job_7/step_0/cpu.stat": "nr_periods 9\nnr_throttled 0\nthrottled_time 0\n",
        "sys/fs/cgroup/cpu/slurm/job_7/cpu.stat": "nr_periods 32\nnr_throttled 31\nthrottled_time 2716538209\n",
        "sys/fs/cgroup/memory/other/cpu.stat": "throttled_time 99000000000\n",
    }
    assert seconds(tree(tmp_path, V1, V1_MOUNT, files)) == pytest.approx(2.716538209)


def test_microseconds_of_version_2(tmp_path):
    files = {"sys/fs/cgroup/system.slice/job/cpu.stat": "usage_usec 5\nnr_throttled 3\nthrottled_usec 1500000\n"}
    assert seconds(tree(tmp_path, V2, V2_MOUNT, files)) == pytest.approx(1.5)


def test_a_container_sees_its_group_as_the_root(tmp_path):
    mounts = "25 24 0:22 /system.slice/job /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    files = {"sys/fs/cgroup/cpu.stat": "throttled_usec 2000000\n"}
    assert seconds(tree(tmp_path, V2, mounts, files)) == 2.0


def test_a_group_outside_of_the_namespace_leaves_the_mounted_one(tmp_path):
    files = {"sys/fs/cgroup/cpu.stat": "throttled_usec 1000000\n", "etc/cpu.stat": "throttled_usec 9000000\n"}
    assert seconds(tree(tmp_path, "0::/../../../etc\n", V2_MOUNT, files)) == 1.0


@pytest.mark.parametrize(
    "groups, mounts", [("", ""), ("\n::\n0\n", "a b - c\n - \n"), (V2, "\0" * 100), ("0::rel\n", V2_MOUNT)]
)
def test_without_groups_nothing_is_throttled(tmp_path, groups, mounts):
    assert seconds(tree(tmp_path, groups, mounts, {})) == 0.0


@pytest.mark.parametrize(
    "text",
    ["", "throttled_usec", "throttled_usec x", "throttled_usec -5", b"\xff\xfe\0", "throttled_usec " + "9" * 5000],
)
def test_strange_statistics_end_no_check(tmp_path, text):
    assert seconds(tree(tmp_path, V2, V2_MOUNT, {"sys/fs/cgroup/cpu.stat": text})) >= 0.0


def test_a_machine_without_proc_is_not_throttled(tmp_path):
    assert seconds(str(tmp_path)) == 0.0


def test_time_that_others_have_is_left_out_of_the_rate():
    found = figures([Work(600, 1.0, 0.25, 0.75), Work(600, 1.0, 0.25, 0.75)], 0.0)
    assert found["rate"] == found["running"] == pytest.approx(2400)
    assert found["waited"] == pytest.approx(0.75)
    assert (found["throttled"], found["stopped"]) == (0.0, pytest.approx(0.0))


@pytest.mark.parametrize("waited", [0.8, 0.0])
def test_throttled_time_counts_whether_the_kernel_calls_it_waiting_or_sleeping(waited):
    found = figures([Work(600, 1.0, 0.2, waited)] * 2, 1.6)
    assert found["rate"] == pytest.approx(600)
    assert found["running"] == pytest.approx(3000)
    assert (found["throttled"], found["waited"], found["stopped"]) == pytest.approx((0.8, 0.0, 0.0))


def test_time_in_which_a_thread_neither_runs_nor_waits_is_stopped():
    found = figures([Work(600, 1.0, 0.2, 0.1)], 0.0)
    assert found["stopped"] == pytest.approx(0.7)
    assert found["rate"] == pytest.approx(600 / 0.9)


@pytest.mark.parametrize("work", [Work(0, 0.5, 0.0, 0.0), Work(5, 0.5, 0.6, 0.7), Work(5, 0.5, 0.1, 0.9)])
@pytest.mark.parametrize("throttled", [-1.0, 0.0, 99.0])
def test_shares_stay_between_none_and_all(work, throttled):
    found = figures([work], throttled)
    assert all(0.0 <= found[name] <= 1.0 for name in ("waited", "throttled", "stopped"))
    assert found["rate"] >= 0.0


@pytest.mark.timing
def test_a_short_measurement_has_a_rate_on_this_machine():
    found = compute_speed(0.01)
    assert found["kernel"] in ("md5", "sha512")
    assert found["rate"] > 0 and found["running"] > 0 and 1 <= found["threads"] <= 4


def test_a_machine_in_fips_mode_computes_something_else(monkeypatch):
    def refused(*_):
        raise ValueError("disabled for FIPS")

    monkeypatch.setattr(compute.hashlib, "md5", refused)
    assert compute_speed(0.01)["kernel"] == "sha512"


@pytest.mark.parametrize("text", ["", "0 0 0\n", "1 2\n", "x y z\n", "-1 -2 -3\n"])
def test_without_scheduling_statistics_a_thread_that_does_not_run_waits(monkeypatch, tmp_path, text):
    (tmp_path / "schedstat").write_text(text)
    monkeypatch.setattr(compute, "SCHEDULING", str(tmp_path / "schedstat"))
    found = compute_speed(0.01)
    assert found["stopped"] == pytest.approx(0.0)
    assert found["rate"] == pytest.approx(found["running"])
