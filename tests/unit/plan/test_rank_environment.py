"""The environment of a rank: every row of the table with its values, what is scrubbed, and who wins."""

from __future__ import annotations

from itertools import count

import pytest

from worldsize.plan.plan import ArrayElement, NodePlan, Plan, RankPlan, Rehearsal, node_major_layout
from worldsize.plan.rank_environment import convention_variables, rank_environment, scrub, search_environment
from worldsize.plan.rank_variables import (
    CONVENTIONS,
    ON_SLURM_ALONE,
    VARIABLES,
    Host,
    RankContext,
    RendezvousResult,
    convention_prefix,
    variable_names,
)
from worldsize.plan.variable_conflicts import contradictions

CREATED = 1_795_000_000.75
ERROR_FILE = "/runs/r/attempt-3/errors/rank.json"


def plan_of(nodes: int, ranks: int, **fields) -> Plan:
    values = {"environment": {}, **fields}
    return Plan("run-7", "t", "lab", CREATED, 3, node_major_layout(nodes, ranks), ("true",), **values)


def layout_of(*nodes: list[str]) -> tuple[NodePlan, ...]:
    """A rank of each role, node by node."""
    ranks, indices = count(), {role: count() for role in ("chief", "worker", "ps")}
    return tuple(
        NodePlan(
            node, tuple(RankPlan(next(ranks), place, role, next(indices[role])) for place, role in enumerate(roles))
        )
        for node, roles in enumerate(nodes)
    )


def world_of(nodes: int) -> RendezvousResult:
    return RendezvousResult("10.1.2.3", 29871, tuple(Host("host%d" % node, 8 + node) for node in range(nodes)))


def context_of(plan: Plan, rank: int) -> RankContext:
    node = next(node for node in plan.nodes if any(each.rank == rank for each in node.ranks))
    mine = next(each for each in node.ranks if each.rank == rank)
    return RankContext(plan, world_of(len(plan.nodes)), node, mine, "/runs/r", ERROR_FILE)


def expected(rank: int, nodes: int, per_node: int) -> dict[str, str]:
    """Every variable, worked out from the rank alone: node-major numbers."""
    node, local = divmod(rank, per_node)
    world = nodes * per_node
    hosts = ["host%d" % each for each in range(nodes)]
    values: dict[str, object] = {
        "WORLDSIZE_RUN_ID": "run-7",
        "WORLDSIZE_ATTEMPT": 3,
        "WORLDSIZE_WORLD_SIZE": world,
        "WORLDSIZE_RANK": rank,
        "WORLDSIZE_LOCAL_RANK": local,
        "WORLDSIZE_LOCAL_WORLD_SIZE": per_node,
        "WORLDSIZE_NODE_RANK": node,
        "WORLDSIZE_NODE_COUNT": nodes,
        "WORLDSIZE_ROLE": "worker",
        "WORLDSIZE_RUN_DIR": "/runs/r",
        "WORLDSIZE_ERROR_FILE": ERROR_FILE,
        "MASTER_ADDR": "10.1.2.3",
        "MASTER_PORT": 29871,
        "WORLD_SIZE": world,
        "RANK": rank,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": per_node,
        "NODE_RANK": node,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": nodes,
        "ROLE_NAME": "worker",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": world,
        "TORCHELASTIC_RUN_ID": "run-7",
        "TORCHELASTIC_RESTART_COUNT": 3,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_ERROR_FILE": ERROR_FILE + ".torchelastic",
        "AZUREML_RUN_ID": "run-7",
        "AZUREML_NODE_COUNT": nodes,
        "AZUREML_CR_NODE_RANK": node,
        "AZUREML_PROCESS_NAME": "rank_%d" % rank,
        "AZ_BATCH_HOST_LIST": ",".join(hosts),
        "SLURM_JOB_ID": 1_795_000_000,
        "SLURM_JOB_NAME": "bash",
        "SLURM_STEP_ID": 3,
        "SLURM_PROCID": rank,
        "SLURM_LOCALID": local,
        "SLURM_NODEID": node,
        "SLURM_NTASKS": world,
        "SLURM_NPROCS": world,
        "SLURM_STEP_NUM_TASKS": world,
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_NTASKS_PER_NODE": per_node,
        "SLURM_STEP_NODELIST": ",".join(hosts),
        "SLURMD_NODENAME": hosts[node],
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": world,
        "OMPI_COMM_WORLD_LOCAL_RANK": local,
        "OMPI_COMM_WORLD_LOCAL_SIZE": per_node,
        "OMPI_COMM_WORLD_NODE_RANK": local,
        "JAX_COORDINATOR_ADDRESS": "10.1.2.3:29871",
        "JAX_NUM_PROCESSES": world,
        "JAX_PROCESS_ID": rank,
        "CCP_JOBID": 1_795_000_000,
        "CCP_TASKID": node + 1,
        "CCP_TASKINSTANCEID": 3,
        "CCP_NODES_CORES": " ".join([str(nodes), *("%s %d" % (host, 8 + index) for index, host in enumerate(hosts))]),
        "CCP_NUMCPUS": 8 + node,
    }
    if nodes > 1:
        values["AZ_BATCH_MASTER_NODE"] = "10.1.2.3:29871"
    else:
        values["AZ_BATCHAI_MPI_MASTER_NODE"] = "10.1.2.3"
    return {name: str(value) for name, value in values.items()}


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1), (2, 2), (3, 1), (1, 4)])
def test_every_row_has_its_value(nodes, per_node):
    plan = plan_of(nodes, per_node)
    for rank in range(nodes * per_node):
        assert convention_variables(context_of(plan, rank)) == expected(rank, nodes, per_node)


IN_ARRAY = {
    "WORLDSIZE_ARRAY_INDEX": "0",
    "WORLDSIZE_ARRAY_COUNT": "3",
    "SLURM_ARRAY_JOB_ID": "1795000000",
    "SLURM_ARRAY_TASK_ID": "0",
    "SLURM_ARRAY_TASK_COUNT": "3",
    "SLURM_ARRAY_TASK_MIN": "0",
    "SLURM_ARRAY_TASK_MAX": "2",
}


def test_elements_of_an_array_know_their_place_and_have_numbers_of_their_own():
    first, last = (convention_variables(context_of(plan_of(1, 1, array=ArrayElement(k, 3, "run")), 0)) for k in (0, 2))
    assert first == {**expected(0, 1, 1), **IN_ARRAY}
    assert {name for name in first if first[name] != last[name]} == {
        "WORLDSIZE_ARRAY_INDEX", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID", "CCP_JOBID",
    }  # fmt: skip
    assert (last["SLURM_ARRAY_TASK_ID"], last["SLURM_JOB_ID"]) == ("2", "1795000002")


def test_a_rehearsal_tells_of_its_gpus_and_where_its_ranks_meet():
    plan = plan_of(2, 1, inrank=("virtual_gpu", "other"), rehearsal=Rehearsal(4))
    told = convention_variables(context_of(plan, 1))
    assert told["WORLDSIZE_INRANK"] == "virtual_gpu,other" and told["WORLDSIZE_VIRTUAL_GPUS"] == "4"
    assert told["WORLDSIZE_HEAD"] == "%s:%s" % (told["MASTER_ADDR"], told["MASTER_PORT"])


def test_the_gpus_of_a_node_are_told_where_they_are_known():
    name = "SLURM_GPUS_ON_NODE"
    assert convention_variables(context_of(plan_of(1, 2, gpus=2), 1))[name] == "2"
    assert convention_variables(context_of(plan_of(1, 2, gpus=0, rehearsal=Rehearsal(4)), 0))[name] == "4"
    for gpus in (None, 0):
        assert name not in convention_variables(context_of(plan_of(1, 2, gpus=gpus), 0))


def test_ranks_know_whether_their_run_is_watched():
    watched = convention_variables(context_of(plan_of(1, 2, watchdog_timeout=300.0), 1))
    assert watched["WORLDSIZE_WATCHDOG"] == "300"


def test_the_table_names_each_variable_once_and_says_what_it_means():
    names = [variable.name for variable in VARIABLES]
    assert len(names) == len(set(names))
    of_frameworks = {variable.name for variable in VARIABLES if variable.convention not in ("worldsize", *CONVENTIONS)}
    of_frameworks |= {"JAX_LOCAL_DEVICE_IDS", "WORLDSIZE_HOSTFILE", "WORLDSIZE_DATA_PARALLEL", "SLURM_GPUS_ON_NODE"}
    of_frameworks |= {"WORLDSIZE_DEBUGGER", "WORLDSIZE_WATCHDOG"}
    of_rehearsals = {"WORLDSIZE_INRANK", "WORLDSIZE_VIRTUAL_GPUS", "WORLDSIZE_HEAD"}
    always = set(expected(0, 2, 1)) | set(expected(0, 1, 1)) | set(IN_ARRAY) | set(ON_SLURM_ALONE)
    assert set(names) - of_frameworks - of_rehearsals == always
    assert {variable.convention for variable in VARIABLES} >= {"worldsize", *CONVENTIONS}
    assert all(variable.meaning for variable in VARIABLES)


NUMBERS = {
    "rank": [0, 1, 2, 3, 4, 5], "local rank": [0, 1, 2, 0, 1, 2], "node rank": [0, 0, 0, 1, 1, 1],
    "world": [6] * 6, "local world": [3] * 6, "nodes": [2] * 6,
}  # fmt: skip
ALIKE = {"run": [0] * 6, "array": [0] * 6, "node": [0, 0, 0, 1, 1, 1], "role": [0, 1, 1, 1, 1, 1]}


def test_a_scope_tells_what_a_value_is():
    fields = {"gpus": 3, "array": ArrayElement(1, 3, "run"), "rehearsal": Rehearsal(3), "data_parallel": "split"}
    nodes = layout_of(["chief", "worker", "worker"], ["worker"] * 3)
    plan = plan_of(2, 3, inrank=("x",), **fields)._replace(nodes=nodes)
    world = world_of(2)._replace(hosts=tuple(host._replace(ports=(7, 8, 9)) for host in world_of(2).hosts))
    contexts = [context_of(plan, rank)._replace(world=world) for rank in range(6)]
    for variable in VARIABLES:
        values = [variable.value(context) for context in contexts] if variable.scope != "own" else []
        if variable.scope in NUMBERS:
            assert values == NUMBERS[variable.scope], variable.name
        elif variable.scope != "own":
            groups = ALIKE[variable.scope]
            assert len({*zip(groups, values, strict=True)}) == len(set(groups)), variable.name


def test_names_by_scope_are_of_all_conventions():
    assert variable_names("rank") == (
        "WORLDSIZE_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "JAX_PROCESS_ID", "HOROVOD_RANK",
    )  # fmt: skip
    assert {*variable_names("nodes", "world")} > {"WORLD_SIZE", "GROUP_WORLD_SIZE", "SLURM_NNODES", "SLURM_NTASKS"}


def test_names_of_a_convention_begin_alike():
    found = {name: convention_prefix(name) for name in ("slurm", "hpcpack", "torch", "none")}
    assert found == {"slurm": "SLURM", "hpcpack": "CCP_", "torch": "", "none": ""}


def test_uneven_nodes_and_roles():
    nodes = (
        NodePlan(0, (RankPlan(0, 0, "chief", 0), RankPlan(1, 1, "worker", 0))),
        NodePlan(1, (RankPlan(2, 0, "worker", 1),)),
    )
    values = convention_variables(context_of(plan_of(1, 1)._replace(nodes=nodes), 2))
    names = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "SLURM_NTASKS_PER_NODE")
    assert [values[name] for name in names] == ["3", "1", "worker", "1", "2", "1"]


INHERITED = {
    # an outer Slurm allocation, an mpirun, a torchrun, Azure, HPC Pack, Horovod, TensorFlow, a run of ours
    "SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_TASKS_PER_NODE": "8", "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_PROCID": "5", "SLURMD_NODENAME": "n1", "SBATCH_EXPORT": "NONE", "SRUN_DEBUG": "3",
    "PMI_RANK": "5", "PMIX_RANK": "5",
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_MCA_ess_base_jobid": "1", "OMPI_MCA_orte_hnp_uri": "x",
    "OMPI_UNIVERSE_SIZE": "8",
    "PRTE_X": "1", "HYDRA_X": "1", "MPI_LOCALRANKID": "1", "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1",
    "MASTER_ADDR": "x",
    "MASTER_PORT": "29500", "GROUP_RANK": "1", "ROLE_RANK": "5", "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_ERROR_FILE": "/outer", "AZUREML_RUN_ID": "outer", "AZ_BATCH_NODE_ID": "x", "CCP_JOBID": "1",
    "HOROVOD_RANK": "5", "HOROVOD_SIZE": "8", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_CROSS_RANK": "1",
    "TF_CONFIG": "{}", "WORLDSIZE_RANK": "5", "WORLDSIZE_ERROR_FILE": "/outer",
}  # fmt: skip
KEPT = {
    "PATH": "/bin", "HOME": "/home/u", "CUDA_VISIBLE_DEVICES": "2,3", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "3",
    "OMPI_MCA_btl": "self,tcp", "HOROVOD_CYCLE_TIME": "1", "WORLDSIZE_HOME": "/w", "WORLDSIZE_SITE_CONFIG": "/s",
    "MASTERPIECE": "yes", "RANKING": "1", "LD_LIBRARY_PATH": "/lib", "PYTHONPATH": "/p", "EMPTY": "",
}  # fmt: skip


@pytest.mark.parametrize("name", INHERITED)
def test_scrubbed(name):
    assert scrub({name: INHERITED[name], **KEPT}) == KEPT


def test_nothing_of_an_outer_launcher_reaches_a_rank():
    plan = plan_of(2, 2)
    found = rank_environment(context_of(plan, 1), {**KEPT, **INHERITED}, threads=2)
    ours = expected(1, 2, 2)
    assert {**found, "PATH": "/bin", "PYTHONUNBUFFERED": ""} == {**KEPT, **ours, "PYTHONUNBUFFERED": ""}


@pytest.mark.parametrize("wanted", CONVENTIONS)
def test_conventions_narrow_to_what_is_asked(wanted):
    found = rank_environment(context_of(plan_of(2, 1, conventions=(wanted,)), 1), INHERITED, threads=1)
    allowed = {variable.name for variable in VARIABLES if variable.convention in ("worldsize", wanted)}
    assert set(found) <= allowed | {"PATH", "OMP_NUM_THREADS", "PYTHONUNBUFFERED"}
    assert "WORLDSIZE_RANK" in found
    assert any(variable.name in found for variable in VARIABLES if variable.convention == wanted)


@pytest.mark.parametrize(
    ("inherited", "job", "found"),
    [
        ({}, {}, "2"),
        ({"OMP_NUM_THREADS": "5"}, {}, "5"),
        ({"OMP_NUM_THREADS": "5"}, {"OMP_NUM_THREADS": "7"}, "7"),
        ({}, {"OMP_NUM_THREADS": "7"}, "7"),
    ],
)
def test_threads(inherited, job, found):
    context = context_of(plan_of(1, 1, environment=job), 0)
    assert rank_environment(context, inherited, threads=2)["OMP_NUM_THREADS"] == found


def test_the_jobs_variables_win_over_everything():
    job = {"PATH": "/job/bin", "RANK": "x", "PYTHONUNBUFFERED": "", "HOME": "/job", "CUDA_VISIBLE_DEVICES": "9"}
    plan = plan_of(1, 1, environment=job, path=("/first",), visible_devices=True)
    found = rank_environment(context_of(plan, 0), {"HOME": "/home/u"}, threads=1)
    assert {name: found[name] for name in job} == job


def test_what_is_true_of_the_whole_job_stays_as_the_node_has_it() -> None:
    plan = plan_of(1, 1, kept=("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_QOS"), environment={"A": "1"})
    node = {"SLURM_JOB_ID": "1234", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)"}
    found = rank_environment(context_of(plan, 0), node, 1)
    assert (found["SLURM_JOB_ID"], found["SLURM_JOB_NODELIST"]) == ("1234", "n[1-2]")
    assert "SLURM_JOB_QOS" not in found and "SLURM_TASKS_PER_NODE" not in found


def test_what_the_environment_activates_is_lower_than_conventions_and_the_job():
    activated = {"A": "env", "RANK": "7", "VIRTUAL_ENV": None, "OMP_NUM_THREADS": "3", "B": "env", "PATH": "/lost"}
    plan = plan_of(1, 1, activated=activated, library_path=("/nccl/lib",), path=("/env/bin",), environment={"B": "job"})
    inherited = {"VIRTUAL_ENV": "/old", "A": "shell", "PATH": "/bin", "LD_LIBRARY_PATH": "/lib"}
    found = rank_environment(context_of(plan, 0), inherited, threads=1)
    assert (found["A"], found["B"], found["RANK"], found["OMP_NUM_THREADS"]) == ("env", "job", "0", "3")
    assert "VIRTUAL_ENV" not in found
    assert found["LD_LIBRARY_PATH"] == "/nccl/lib:/lib"
    assert rank_environment(context_of(plan, 0), {}, threads=1)["LD_LIBRARY_PATH"] == "/nccl/lib"


def test_the_plans_directories_come_first_on_the_path():
    context = context_of(plan_of(1, 1, path=("/venv/bin", "/modules")), 0)
    assert rank_environment(context, {"PATH": "/bin"}, threads=1)["PATH"] == "/venv/bin:/modules:/bin"
    assert rank_environment(context, {}, threads=1)["PATH"].startswith("/venv/bin:/modules:/usr/bin")


@pytest.mark.parametrize(
    ("inherited", "devices"),
    [
        (None, ["0", "1"]),
        ("", ["", ""]),
        ("2,3", ["2", "3"]),
        ("GPU-a,GPU-b,GPU-c", ["GPU-a", "GPU-b"]),
        ("5", ["5", "5"]),
    ],
)
def test_each_rank_sees_its_own_of_the_nodes_devices(inherited, devices):
    plan = plan_of(1, 2, visible_devices=True)
    node = {} if inherited is None else {"CUDA_VISIBLE_DEVICES": inherited}
    found = [rank_environment(context_of(plan, rank), node, threads=1)["CUDA_VISIBLE_DEVICES"] for rank in (0, 1)]
    assert found == devices


def test_devices_are_left_alone_unless_asked():
    context = context_of(plan_of(1, 2), 1)
    assert "CUDA_VISIBLE_DEVICES" not in rank_environment(context, {}, threads=1)
    assert rank_environment(context, {"CUDA_VISIBLE_DEVICES": "2,3"}, threads=1)["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_ranks_that_share_gpus_take_turns():
    plan = plan_of(1, 5, visible_devices=True, gpus=2)
    given = [rank_environment(context_of(plan, rank), {}, 1)["CUDA_VISIBLE_DEVICES"] for rank in range(5)]
    assert given == ["0", "1", "0", "1", "0"]
    none = plan_of(1, 1, visible_devices=True, gpus=0)
    assert rank_environment(context_of(none, 0), {}, 1)["CUDA_VISIBLE_DEVICES"] == ""


# a job's own rank variables


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, []),
        ({"LR": "0.1"}, []),
        ({"WORLD_SIZE": "4"}, []),
        ({"WORLD_SIZE": "16"}, [("WORLD_SIZE", "4")]),
        ({"SLURM_NTASKS": "16", "WORLDSIZE_NODE_COUNT": "1"}, [("WORLDSIZE_NODE_COUNT", "2"), ("SLURM_NTASKS", "4")]),
        ({"RANK": "0"}, [("RANK", "a different value for each rank")]),
        ({"MASTER_PORT": "29500"}, [("MASTER_PORT", "chosen when the run starts")]),
        ({"MASTER_ADDR": "localhost"}, [("MASTER_ADDR", "chosen when the run starts")]),
        ({"CCP_NODES_CORES": "1 a 4"}, [("CCP_NODES_CORES", "chosen when the run starts")]),
        ({"SLURM_STEP_NODELIST": "a"}, [("SLURM_STEP_NODELIST", "chosen when the run starts")]),
        ({"TORCHELASTIC_ERROR_FILE": "/mine"}, []),
        ({"AZ_BATCHAI_MPI_MASTER_NODE": "mine"}, []),
        ({"AZ_BATCH_MASTER_NODE": "mine:1"}, [("AZ_BATCH_MASTER_NODE", "chosen when the run starts")]),
        ({"TF_CONFIG": "{}"}, [("TF_CONFIG", "unset")]),
        ({"PMI_RANK": "0", "PMIX_RANK": "0"}, [("PMI_RANK", "unset"), ("PMIX_RANK", "unset")]),
        ({"OMPI_COMM_WORLD_FOO": "0"}, [("OMPI_COMM_WORLD_FOO", "unset")]),
        ({"SLURM_TASKS_PER_NODE": "2(x2)"}, [("SLURM_TASKS_PER_NODE", "unset")]),
        ({"PMIX_MCA_gds": "hash", "OMPI_MCA_btl": "tcp", "SLURM_CONF": "/etc/x", "TF_CPP_MIN_LOG_LEVEL": "3"}, []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_contradictions(wanted, found):
    assert contradictions(plan_of(2, 2), wanted) == found


def test_a_variable_of_a_convention_that_is_off_is_the_jobs_own():
    plan = plan_of(2, 2, conventions=("torch",))
    wanted = {"SLURM_NTASKS": "16", "WORLD_SIZE": "16", "WORLDSIZE_RANK": "1"}
    assert [name for name, _ in contradictions(plan, wanted)] == ["WORLDSIZE_RANK", "WORLD_SIZE"]


def test_a_name_that_its_convention_leaves_unset_is_the_jobs_own_where_the_convention_is_off():
    wanted = {"PMIX_RANK": "0", "SLURM_TASKS_PER_NODE": "2", "TF_CONFIG": "{}"}
    assert [name for name, _ in contradictions(plan_of(2, 2, conventions=("torch",)), wanted)] == ["TF_CONFIG"]
    found = contradictions(plan_of(1, 1, conventions=("slurm",)), wanted)
    assert [name for name, _ in found] == ["SLURM_TASKS_PER_NODE"]


def test_what_is_the_same_on_all_ranks_of_one_node_may_be_repeated():
    assert contradictions(plan_of(1, 4), {"NODE_RANK": "0", "LOCAL_WORLD_SIZE": "4", "SLURM_NODEID": "0"}) == []


def test_a_parameter_server_sees_no_gpu():
    plan = plan_of(1, 1, visible_devices=True)._replace(nodes=layout_of(["worker", "worker", "ps"]))
    given = [rank_environment(context_of(plan, rank), {}, 1)["CUDA_VISIBLE_DEVICES"] for rank in range(3)]
    assert given == ["0", "1", ""]


def test_a_module_is_searched_for_as_the_ranks_find_it():
    """Found where no `python` is on the PATH of the node: it did not tell whether it had the module."""
    plan = plan_of(2, 1, path=("/venv/bin",), environment={"PYTHONPATH": "/job"}, activated={"CONDA_PREFIX": "/venv"})
    inherited = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/shell", "RANK": "7"}
    found = search_environment(plan, inherited)
    rank = rank_environment(context_of(plan, 0), inherited, 1)
    assert found == {"PATH": "/venv/bin:/usr/bin:/bin", "PYTHONPATH": "/job", "CONDA_PREFIX": "/venv"}
    assert {name: rank[name] for name in found} == found
