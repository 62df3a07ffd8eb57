"""What to do about messages of frameworks that do not say so themselves."""

from __future__ import annotations

import re

from worldsize.common.named_tuple import NamedTuple


class Hint(NamedTuple):
    """`pattern`: a regular expression that the exception's "Type: message" holds."""

    pattern: str
    advice: str


HINTS = (
    Hint(
        r"CUDA error: invalid device ordinal",
        "the index counts the GPUs that this process sees on its own node: torch.cuda.set_device(int(os.environ["
        '"LOCAL_RANK"])), and not the rank in the world; with visible_devices: true each process sees one GPU, 0',
    ),
    Hint(
        r"Duplicate GPU detected",
        "each process of a node needs a GPU of its own: torch.cuda.set_device(int(os.environ["
        '"LOCAL_RANK"])) before the first tensor is sent to `cuda` and before the process group is used',
    ),
    Hint(
        r"ValueError: Attempt to convert a value \(PerReplica",
        "Keras 3 cannot train with model.fit on several TensorFlow workers. Install the version before it beside "
        "TensorFlow (pip install --no-deps tf-keras, of TensorFlow's own version) and say so in the job "
        '(environment_variables: {TF_USE_LEGACY_KERAS: "1"}); or write the training loop with strategy.run',
    ),
)


REHEARSAL_HINTS = (
    Hint(
        r"^FileNotFoundError: .*'/(var/)?tmp/",
        "each node of a rehearsal has a /tmp of its own, as the nodes of a cluster have: what several nodes read "
        "belongs in ./outputs or on the shared file system, and what each node needs, one rank of each node makes",
    ),
    Hint(
        r"Temporary failure in name resolution|Network is unreachable|LocalEntryNotFoundError|OfflineModeIsEnabled",
        "the nodes reach no network (offline: true): fetch it before the start, with `stage:` or as an input",
    ),
)


def hint_for(said: str, rehearsal: bool = False) -> str | None:
    """The advice for an exception, as "Type: message"."""
    hints = (*HINTS, *REHEARSAL_HINTS) if rehearsal else HINTS
    return next((hint.advice for hint in hints if re.search(hint.pattern, said)), None)
