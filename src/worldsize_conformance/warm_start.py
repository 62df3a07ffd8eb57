"""Tests of the warm start: the ranks of a node are forked from one process that has imported modules, if worldsize's
agents start them."""

from __future__ import annotations

import json

from worldsize.jobspec.job import Job
from worldsize_conformance.place import Place

PROGRAM = """
import json, os, sys
found = {
    "words": sys.argv, "imported": "decimal" in sys.modules, "leads": os.getsid(0) == os.getpid(),
    "place": [os.environ[name] for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE")],
}
with open("outputs/rank-" + os.environ["RANK"], "w") as file:
    json.dump(found, file)
print("rank", os.environ["RANK"])
"""


def test_the_ranks_of_each_node_are_forked_once_modules_are_imported(place: Place) -> None:
    place.write("train.py", PROGRAM)
    place.job("python train.py --rank=$RANK", "2x2", code=".", preload=["decimal"])
    run = place.run("job.yml")
    ranks = [json.loads(place.read_output(run, "rank-%d" % rank)) for rank in range(4)]
    warm = place.compute().facts(Job()).agents
    assert json.loads(place.read(run, "record.json"))["start"]["way"] == ("warm" if warm else "plain")
    assert [each["words"] for each in ranks] == [["train.py", "--rank=%d" % rank] for rank in range(4)]
    assert [each["place"] for each in ranks] == [[str(rank), str(rank % 2), str(rank // 2), "4"] for rank in range(4)]
    assert [(each["imported"], each["leads"]) for each in ranks] == [(warm, True)] * 4
    assert place.ok("logs", run, "--rank", "3", "--raw").out == "rank 3\n"
    for node in (0, 1):
        started = [each for each in place.events(run, node) if each["event"] == "ranks_started"]
        assert [each.get("start") for each in started] == ["warm" if warm else None]
