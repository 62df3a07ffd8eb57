"""train.py under another usual name."""

import train  # noqa: F401
