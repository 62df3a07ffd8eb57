"""What a fake squeue, sacct, sinfo, sbatch or scancel does: run as `python THIS NAME FOLDER ARGUMENTS…`."""

import json
import os
import sys
import time

name, home, *words = sys.argv[1:]
with open(os.path.join(home, "state.json")) as file:
    state = json.load(file)
with open(os.path.join(home, "calls"), "a") as file:
    file.write(json.dumps({"argv": [name, *words], "environ": dict(os.environ)}) + "\n")
version, mode = state["version"], state["modes"].get(name, "")
options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))


def fail(text, code=1):
    sys.stderr.write(text + "\n")
    sys.exit(code)


def when(value):
    if not isinstance(value, (int, float)):
        return str(value)
    return time.strftime(os.environ.get("SLURM_TIME_FORMAT", "%Y-%m-%dT%H:%M:%S"), time.localtime(value))


def shown(columns, row, known):
    line = ""
    for column in columns:
        token, _, rest = column.partition(":")
        digits = ""
        while rest[:1].isdigit():
            digits, rest = digits + rest[0], rest[1:]
        width = int(digits) if digits else 20
        if token.lower() not in known:
            sys.stderr.write("%s: error: Invalid job format specification: %s\n" % (name, token))
            value = ""
        else:
            value = when(row.get(token.lower(), ""))
        line += (value[:width].ljust(width) if width else value) + rest
    return line


def squeue():
    rows = state["jobs"]
    if "jobs" in options:
        wanted = options["jobs"].split(",")
        found = [row for row in rows if row["jobarrayid"].split("_")[0] in [job.split("_")[0] for job in wanted]]
        if not found and len(wanted) == 1:
            fail("slurm_load_jobs error: Invalid job id specified")
        rows = found
    if "name" in options:
        rows = [row for row in rows if row["name"] in options["name"].split(",")]
    if "states" not in options:
        rows = [row for row in rows if row["state"] in ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING")]
    for row in rows:
        row = dict(row)
        code, signal = row["exit"]
        row["exit_code"] = str(code << 8 | signal) if version < "23.02" else "%d:%d" % (code, signal)
        print(shown(options["Format"].split(","), row, state["squeue_columns"]))


def sacct():
    if mode == "disabled":
        fail("Slurm accounting storage is disabled")
    bases = [job.split("_")[0] for job in options["jobs"].split(",")] if "jobs" in options else None
    for field in options["format"].split(","):
        if field not in state["sacct_fields"]:
            fail('sacct: error: Invalid field requested: "%s"' % field)
    separator = options.get("delimiter", "|")
    for row in state["records"]:
        if bases is not None and row["JobID"].split(".")[0].split("_")[0] not in bases:
            continue
        if "name" in options and row["JobName"] != options["name"]:
            continue
        print("".join(when(row.get(field, "")) + separator for field in options["format"].split(",")))


def sinfo():
    sys.stdout.write(state["sinfo"])


def sbatch():
    sys.stdin.read()
    if "test-only" in options:
        asked = "%s/%s" % (options.get("partition", ""), options.get("time", ""))
        found = state["trials"].get(asked)
        fail(found or "allocation failure: Requested node configuration is not available", 0 if found else 1)
    print(state["submitted"])


if mode == "away":
    fail(state["away"][name])
if mode == "hang":
    time.sleep(600)
if mode == "silent":
    sys.exit(1)
if mode.startswith("say "):
    fail(mode[4:])
if mode == "killed":
    os.kill(os.getpid(), 9)
if mode == "cut":
    state["jobs"] = state["jobs"][:1]
    squeue()
    sys.stdout.write("cut\x1fRUN")
    sys.exit(0)
{"squeue": squeue, "sacct": sacct, "sinfo": sinfo, "sbatch": sbatch, "scancel": lambda: None}[name]()
