"""Each test runs once on every compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml_double.double import RESOLVER, Double
from azureml_double.fixtures import compute_table, sign_in
from hpcpack.simulator import Simulator
from slurm.cluster import Cluster
from targets import TARGETS, OwnTarget

from worldsize_conformance.fixtures import place as place
from worldsize_conformance.place import Target

FOLDER = Path(__file__).parent
WITHOUT_ACCOUNTING = {
    "test_the_exit_code_comes_through",
    "test_the_time_limit",
    "test_cancel_while_it_runs",
    "test_absent_never_means_that_it_succeeded",
}
"""Where Slurm without accounting differs: how the end of a job is learnt. The others are for test-all."""

SLOW_COMMANDS = ("hpcpack", "test_however_it_ends_it_ends_everywhere_and_the_run_goes_on")
"""Half a minute of waiting for files on a share; the same is tested on the other computes."""

NOT_OF_HPCPACK = {
    "test_a_command_beside_the_ranks_has_it_too",
    "test_a_rank_that_ends_early_and_well_is_waited_for",
    "test_a_run_can_be_cancelled_while_it_is_set_up",
    "test_a_run_starts_after_others",
    "test_a_trial_of_all_nodes_is_ended_or_left_out_on_each",
    "test_again",
    "test_cancel_again_and_after_the_end",
    "test_cancel_what_ignores_it_at_once",
    "test_every_node_of_the_compute",
    "test_grace_before_the_end",
    "test_it_has_the_ranks_environment_and_place_but_is_no_rank",
    "test_logs_can_be_followed_while_it_runs",
    "test_logs_of_all_are_followed_to_their_end",
    "test_no_more_at_once_than_asked_and_each_ends_alone",
    "test_nodes_of_its_own",
    "test_only_a_running_run_can_be_reached",
    "test_setup_runs_in_each_elements_code",
    "test_several_runs_at_a_time",
    "test_the_first_failing_element_gives_the_code",
    "test_the_ranks_run_in_a_snapshot",
    "test_the_time_limit",
    "test_what_is_left_behind",
    "test_what_speaks_against_a_success",
    "test_what_the_compute_has_forgotten_stays_as_it_was",
    "test_what_was_cancelled_or_still_runs_too",
    "test_what_was_submitted_is_on_record",
}
"""What does not depend on HPC Pack, or what tests/hpcpack has with more: there it is for test-all."""

OF_THE_AGENT = {
    "test_a_job_without_code_runs_in_an_empty_directory",
    "test_an_exception_is_kept_as_data",
    "test_bytes_are_kept_and_last_words_arrive",
    "test_conventions_can_be_narrowed",
    "test_each_ranks_own_log_in_its_own_order",
    "test_strict",
    "test_the_job_has_the_last_word_on_what_is_not_a_rank_variable",
    "test_the_record_of_an_exception_is_private",
    "test_nothing_speaks_against_what_ends_well",
}
"""What the agent does alone, whatever has started it: beside the local nodes only test-all has it on each compute."""

OF_AZURE = {
    "test_a_run_can_be_cancelled_while_it_is_set_up",
    "test_absent_never_means_that_it_succeeded",
    "test_cancel_while_it_runs",
    "test_every_rank_has_its_place_in_every_convention",
    "test_grace_before_the_end",
    "test_inputs_by_path_and_by_value",
    "test_setup_comes_first_and_what_it_exports_reaches_every_rank",
    "test_the_exit_code_comes_through",
    "test_the_first_failure_ends_all_and_is_named",
    "test_the_time_limit",
    "test_what_is_left_behind",
}
"""What depends on the service, or on the way from its nodes: the others are for test-all."""

NOT_OF_AZURE = ("commands_on_nodes", "search", "several")
"""Modules of what Azure's compute does not offer: commands on nodes, arrays with a limit, runs after others."""

APART_ON_AZURE = {
    "test_a_command_beside_the_ranks_has_it_too",
    "test_a_group_reads_what_ranks_make_and_does_not_write",
    "test_bytes_are_kept_and_last_words_arrive",
    "test_modules_are_loaded",
    "test_ranks_have_the_users_and_our_files_are_private",
    "test_ranks_of_a_launcher_have_it",
}
"""What needs a directory that all nodes share, environment modules, or commands on nodes."""

NOT_OF_SLURM = {
    "test_a_rank_that_ends_early_and_well_is_waited_for",
    "test_again",
    "test_cancel_before_it_is_submitted",
    "test_cancel_what_ignores_it_at_once",
    "test_inputs_by_path_and_by_value",
    "test_lines_are_folded_and_codes_gathered",
    "test_logs_of_all_are_followed_to_their_end",
    "test_setup_runs_in_each_elements_code",
    "test_the_best_one_is_left_in_outputs",
    "test_the_first_failure_ends_all_and_is_named",
    "test_without_a_run_it_is_for_every_node_or_says_so",
    "test_words_and_values_arrive_as_they_are",
}
"""What does not depend on Slurm, or what tests/slurm has with more: on Slurm it is for test-all."""

FIRST_CASES = {
    "test_a_group_reads_what_ranks_make_and_does_not_write": "077",
    "test_ranks_have_the_users_and_our_files_are_private": "027",
    "test_ranks_of_a_launcher_have_it": ("mpirun", "srun"),
    "test_setup_that_fails_ends_the_run_and_is_named": "line",
    "test_the_exit_code_comes_through": ("exit 3-", "kill "),
    "test_who_may_read_a_run": "group",
    "test_what_speaks_against_a_success": "sleep 300",
}
"""The case of a test that every compute has; the others run on local nodes, and elsewhere with test-all only."""

FIRST_CODES = ("exit 3-",)
"""Of the exit codes, that which Slurm without accounting has with each `make test`."""


@pytest.fixture
def target(own_target: OwnTarget, request: pytest.FixtureRequest) -> Iterator[Target]:
    target = own_target.target
    cluster: Cluster | Simulator | Double | None = (
        request.getfixturevalue(own_target.cluster) if own_target.cluster else None
    )
    if isinstance(cluster, Cluster):
        environ = {"SLURM_CONF": cluster.environ["SLURM_CONF"]}
        yield target._replace(directory=cluster.shared, environ=environ)
    elif isinstance(cluster, Double):
        environ = {**sign_in(cluster), "PYTHONPATH": RESOLVER}
        yield target._replace(environ=environ, config=compute_table(cluster, target.name))
    elif cluster:
        with open(cluster.config) as file:
            config = file.read().partition("\n\n")[2]
        yield target._replace(directory=cluster.share, environ=cluster.environ(), config=config)
    else:
        yield target


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        name = metafunc.function.__name__
        metafunc.parametrize("own_target", [_parameter(each, name) for each in TARGETS])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what Azure's compute does not owe, and mark further cases as exhaustive, before those of the tier are
    chosen."""
    items[:] = [item for item in items if not (item.path.parent == FOLDER and _is_not_of_azure(item))]
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == FOLDER and _is_further_case(item):
            item.add_marker("exhaustive")


def _is_not_of_azure(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or "[azureml" not in item.name:
        return False
    module = str(item.function.__module__).rpartition(".")[2]
    case = item.name.partition("[azureml")[2]
    return module in NOT_OF_AZURE or item.originalname in APART_ON_AZURE or case == "-module]"


def _is_further_case(item: pytest.Function) -> bool:
    compute, _, case = item.name.partition("[")[2].replace("slurm-alone", "alone").partition("-")
    if compute == "alone" and item.originalname == "test_the_exit_code_comes_through":
        return not case.startswith(FIRST_CODES)
    if compute.rstrip("]") == "hpcpack" and item.originalname in NOT_OF_HPCPACK:
        return True
    return compute in ("slurm", "hpcpack", "azureml") and not case.startswith(FIRST_CASES.get(item.originalname, ""))


def _parameter(own: OwnTarget, test: str) -> object:
    target = own.target
    marks = [pytest.mark.slurm] if target.name.startswith("slurm") else []
    if (
        (target.name == "slurm-alone" and test not in WITHOUT_ACCOUNTING)
        or (target.name in ("slurm", "hpcpack") and test in OF_THE_AGENT)
        or (target.name == "slurm" and test in NOT_OF_SLURM)
        or (target.name == "azureml" and test not in OF_AZURE)
        or (target.name, test) == SLOW_COMMANDS
    ):
        marks.append(pytest.mark.exhaustive)
    return pytest.param(own, id=target.name, marks=marks)
