"""What `stage:` of a job may say."""

from __future__ import annotations

from worldsize.jobspec.keys.key import Key, Keys

STAGE: Keys = {
    "pip": Key("requirements", "Requirements, or a file of them, that ranks may `pip install`: wheels.", blank=False),
    "uv": Key("requirements", "The same for `uv pip install`; the wheels serve both.", blank=False),
    "huggingface": Key("texts", "Repositories of the Hugging Face hub: NAME, NAME@REVISION, datasets/NAME; then "
                       "patterns of the files wanted.", blank=False),
    "torch_hub": Key("texts", "Repositories of torch.hub, OWNER/NAME:REF, and URLs of checkpoints.", blank=False),
    "data": Key("text_map", "Paths below $WORLDSIZE_DATA to URIs; #sha256=… at a URI's end is checked.", blank=False),
}  # fmt: skip
