"""The directories of an array's runs, inside the array's directory: a small directory for each run.

Files that an element's directory lacks are linked from the array's by its agent when it starts
(agent/startup/array_element.py).
"""

from __future__ import annotations

import os
from collections.abc import Collection

from worldsize.common.atomic_files import link_or_copy, write_text
from worldsize.compute.base import Submission
from worldsize.plan.array import Array, array_file, element_root
from worldsize.plan.launchers import external_launchers
from worldsize.plan.node_disk import with_local_variables
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values, write_secrets
from worldsize.service.request import PlannedJob, Progress
from worldsize.service.secrets import masked_job_text, split_secrets
from worldsize.service.submission.plan_job import plan_in_directory, planned_element_job
from worldsize.trust.secrets import mask_tree, mask_values


def write_elements(
    rendered: Submission, planned: PlannedJob, paths: RunPaths, secrets: Collection[str], progress: Progress
) -> list[Submission]:
    """Write the run directory of each element of an array, and return the Submission of each one. `secrets` are texts
    to mask in addition to the secrets of the plans."""
    submissions: list[Submission] = []
    for number in range(len(planned.elements)):
        progress.step("elements", number, len(planned.elements))
        element = RunPaths(element_root(paths.root, number))
        each = rendered._replace(plan=element_plan(planned, number, element), paths=element)
        _write_element(each, planned, paths, secrets, submissions[0].paths.job if submissions else None)
        submissions.append(each)
    return submissions


def element_plan(planned: PlannedJob, element: int, paths: RunPaths) -> Plan:
    """Return the plan of the run number `element` of the planned array, for its run directory `paths`."""
    plan = with_local_variables(plan_in_directory(planned, element, paths))
    assert plan.array is not None
    options = plan.options
    if "search" in options:
        options = {**options, "search": {**options["search"], "settings": planned.elements[element]}}
    array = plan.array._replace(element=element)
    return plan._replace(argv=(*planned.wrap, *plan.argv), array=array, options=options)


def write_array(planned: PlannedJob, paths: RunPaths, secrets: Collection[str]) -> None:
    """Write the array's file array.json: its id, size and varying input values, with secrets masked. An array is
    complete once this file exists."""
    plan = planned.plan
    hidden = [*plan_secret_values(plan), *secrets]
    varied = planned.elements if planned.elements[0] else ()
    values = tuple(mask_tree(mask_values(each, hidden), sparing=True) for each in varied)
    at_once = plan.array.at_once if plan.array else None
    size = (len(plan.nodes), plan.world_size, len(planned.elements))
    search = plan.options.get("search")
    labels = mask_tree(mask_values(plan.labels, hidden), sparing=True)
    array = Array(paths.run_id, plan.name, plan.compute, plan.created, *size, at_once, values, search, labels)
    write_text(array_file(paths.root), array.to_json())


def _write_element(
    submission: Submission, planned: PlannedJob, array: RunPaths, secrets: Collection[str], equal_job: str | None
) -> None:
    """Write the files of the run directory of one array element. `equal_job` is the job.yml of a former element, which
    is equal if nothing varies; None for the first element."""
    plan, paths = submission.plan, submission.paths
    mode = 0o777 & ~plan.umask
    os.mkdir(paths.root, mode)
    number = plan.array.element if plan.array else 0
    if planned.elements[number] or equal_job is None:
        _write(paths.job, masked_job_text(planned_element_job(planned, number), plan, secrets), mode)
    else:
        link_or_copy(equal_job, paths.job)
    shown, hidden = split_secrets(plan, secrets)
    _write(paths.plan, shown.to_json(), mode)
    if hidden:
        write_secrets(paths, hidden)
    link_or_copy(array.agent, paths.agent)
    for name in external_launchers(plan):
        from worldsize.plan.external_launchers import file_name

        link_or_copy(os.path.join(array.root, file_name(name)), os.path.join(paths.root, file_name(name)))
    if os.path.exists(array.manifest):
        link_or_copy(array.manifest, paths.manifest)
    link_or_copy(array.record, paths.record)
    if planned.environment is not None:
        link_or_copy(array.environment, paths.environment)


def _write(path: str, text: str, mode: int) -> None:
    """Write `text` to a new file `path` of an element. No reader knows the element's directory yet, so none can see a
    half-written file."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o666), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
