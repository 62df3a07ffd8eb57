"""What only a rehearsal says."""

from __future__ import annotations

from causes.case import Case

REHEARSAL_CASES = (
    Case(
        "rehearsed-disk",
        """import os, time

ready = f"ready-{os.environ['WORLDSIZE_RUN_ID']}"
if os.environ["RANK"] == "0":
    with open("/tmp/index.json", "w") as file:
        file.write("{}")
    open("../outputs/" + ready, "w").close()
    time.sleep(60)
while not os.path.exists("../outputs/" + ready):
    time.sleep(0.1)
open("/tmp/index.json")
""",
        ranks=(1,),
        world="2x1",
        keys={"virtual_gpus": 1},
        needs=("torch",),
    ),
    Case(
        "rehearsed-offline",
        """import os, time, urllib.request

if os.environ["RANK"] == "0":
    urllib.request.urlopen("https://example.org/tokenizer.json", timeout=20)
time.sleep(60)
""",
        world="1x2",
        keys={"virtual_gpus": 2, "offline": True},
        needs=("torch",),
    ),
)
