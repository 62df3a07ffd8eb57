"""Rules for showing what a run has written: its secrets are masked, and only files of this user's own runs are
trusted."""

from __future__ import annotations

import os
from collections.abc import Callable

from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import masked_variables
from worldsize.service.ownership import is_own
from worldsize.trust.secrets import mask_text, mask_values, secret_values


def told_error_file(paths: RunPaths, plan: Plan) -> str | None:
    """Return the path of the file for torch's error report that the job names in TORCHELASTIC_ERROR_FILE; None if it
    names none. None also for another user's run, since its plan may name any file of this user."""
    return plan.environment.get("TORCHELASTIC_ERROR_FILE") if is_own(paths) else None


def text_masker(paths: RunPaths, plan: Plan) -> Callable[[str], str]:
    """Return a function that masks secrets in text that ranks have written, before it is shown. Values of this
    process's variables are masked only for this user's own runs: another user's plan may name variables of this
    process, and the mask would then confirm a guess of their values."""
    names = (*plan.secrets, *masked_variables(plan))
    environ = os.environ if is_own(paths) else {}
    known = {name: value for name, value in environ.items() if name in names}  # a damaged name is not looked up
    secrets = secret_values(known, names)
    return lambda text: mask_text(str(mask_values(text, secrets)))
