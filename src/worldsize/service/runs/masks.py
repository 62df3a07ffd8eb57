"""What of a run's own words is safe to show: its secrets masked, and whose files are believed."""

from __future__ import annotations

import os
from collections.abc import Callable

from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import masked_variables
from worldsize.service.ownership import is_own
from worldsize.trust.secrets import mask_text, mask_values, secret_values


def told_error_file(paths: RunPaths, plan: Plan) -> str | None:
    """Return the file that the job names for torch's report. Another user's plan may name any file of this user's."""
    return plan.environment.get("TORCHELASTIC_ERROR_FILE") if is_own(paths) else None


def text_masker(paths: RunPaths, plan: Plan) -> Callable[[str], str]:
    """Return a function that masks secrets in what ranks have written, before people see it. Another user's plan may
    name variables of this process; whoever guesses what they hold is told nothing by the mask."""
    names = (*plan.secrets, *masked_variables(plan))
    environ = os.environ if is_own(paths) else {}
    known = {name: value for name, value in environ.items() if name in names}  # a damaged name is none to ask for
    secrets = secret_values(known, names)
    return lambda text: mask_text(str(mask_values(text, secrets)))
