"""Providers: modules of wings with functions that a job or another wing may need. Any of them may be missing.

Every provider that fetches or creates something before the run is created has

    fetch(request, dry, progress) -> SubmissionRequest    with the results in it; UsageError, WorldsizeError

In addition, the core calls

environments    own_names(directory), plan_environment(spec, existing, config, compute, environ, secrets),
                ensure_ready(environment, progress, start), build_record(environment, secrets),
                installed_packages(prefix), lost_variables(path), None for what is no lock
packs           packed_environment(spec, path),
                with_packed_environment(plan, job, environment, packed, settings, facts)
images          check_image(plan, job, image, request),
                wrap_in_container(plan, job, image, request, facts, paths)
inputs          check_remote(name, value, path, origins)
searches        make_search(job), a Search: `job` and `settings` of each trial, `at_once`, with_trials(plan),
                find_problems(job, compute, origins); PlanError, also by with_own_tuning(arrangement)
search_progress SearchProgress(array, quiet), an ArrayProgress; best_lines(array), shown with an array's state
node_disk       try_read_only(paths); the agents load the rest on the nodes
checks          with_check(plan, request, job, facts), script_notices(request, job, plan, facts),
                offline_notices(job, origins), is_undistributed(script, nodes, ranks_per_node)
notifications   loaded by the agents on the nodes
metrics         efficiency_lines(run, status), efficiency_data(run, status), shown below the end of a run;
                progress_text(paths), shown with its state; read_series(paths, every_rank, outside) ->
                tuple[Series, …], current_points(series), series_row(series), read_node_samples(paths, node),
                read_parameters(paths)
pictures        Chart, Line, draw_chart(chart, format) and draw_charts(charts, format) -> bytes, ConfigError
                without matplotlib; Span, TimelineRow, draw_timeline(title, rows), without it;
                make_page(title, *children) -> bytes, of element, section, table, scrolling, key_values and
                details
facts           read_facts(paths) -> tuple[NodeFacts, …] of the attempt, recorded_facts(paths), only those that
                agents have written; hardware_table(nodes), software_table(nodes, reported), one table of all
                nodes
notebooks       html_of(runs), show_card(runs): a notebook's view of a run, or of an array
node_commands   execute_on_run(command, there), execute_by_job(command, share, there, submit),
                new_command_path(share, prefix): for computes whose nodes are reached only through files
running_runs    find_reachable(name, verb), find_running(run, verb, status) -> RunningRun, whose
                node_command(argv, nodes) is executed next to the ranks; no_running_run_error(hint)
"""

from __future__ import annotations

from types import ModuleType

from worldsize.common.named_tuple import NamedTuple
from worldsize.registry import find_module, load_module


class Provider(NamedTuple):
    """A module below `worldsize`, and the name of the kind in errors."""

    module: str
    what: str


PROVIDERS = {
    "environments": Provider("wings.environments.job_environment", "building environments"),
    "packs": Provider("wings.provisioning.packed_environments", "unpacking environments on nodes"),
    "images": Provider("wings.provisioning.job_image", "running ranks in container images"),
    "node_disk": Provider("wings.provisioning.agent.read_only", "preparing the nodes' disks"),
    "node_commands": Provider("wings.node_commands.by_files", "executing commands on nodes"),
    "running_runs": Provider("wings.node_commands.running_runs", "executing commands on nodes"),
    "inputs": Provider("wings.staging.inputs", "downloading inputs"),
    "staging": Provider("wings.staging.offline", "`stage:`"),
    "checks": Provider("wings.checks.submission", "checking nodes"),
    "notifications": Provider("wings.notify.agent.caller", "`notify`"),
    "metrics": Provider("wings.metrics.provider", "metrics"),
    "facts": Provider("wings.facts.provider", "recording the nodes' hardware"),
    "pictures": Provider("wings.pictures.provider", "charts and pages"),
    "notebooks": Provider("wings.python_surface.notebook.live_card", "runs in notebooks"),
    "searches": Provider("wings.trials.job", "`autotune:`"),
    "search_progress": Provider("wings.trials.progress", "`autotune:`"),
}


def provider(kind: str) -> ModuleType:
    """Import and return the module that provides the optional part `kind`, such as "environments" or "metrics". Raise
    ConfigError, in one sentence, if this installation does not contain it."""
    return load_module(*PROVIDERS[kind])


def find_provider(kind: str) -> ModuleType | None:
    """Import and return the module that provides the optional part `kind`, such as "environments" or "metrics"; None if
    this installation does not contain it."""
    return find_module(PROVIDERS[kind].module)
