"""The one script by itself, data-parallel as it is, and converted: what each prints, side by side.

    python examples/data-parallel/compare.py [NxM]

All three draw the same batches, and end alike to the last digit shown.
"""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WORLDSIZE = [sys.executable, "-m", "worldsize"]


def printed(command, folder):
    environ = {**os.environ, "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    return [line.partition(": ")[2] if line.startswith("0:0: ") else line for line in done.stdout.splitlines()]


def main():
    world = sys.argv[1] if len(sys.argv) > 1 else "2x2"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("train.py", "converted.py"):
            shutil.copy(os.path.join(HERE, "src", "train.py"), os.path.join(folder, name))
        subprocess.run([*WORLDSIZE, "convert", "converted.py", "--write"], cwd=folder, check=True)
        run = [*WORLDSIZE, "run", "-w", world]
        columns = {
            "python": printed([sys.executable, "train.py"], folder),
            "--data-parallel": printed([*run, "--data-parallel", "--", "python", "train.py"], folder),
            "convert": printed([*run, "--", "python", "converted.py"], folder),
        }
    print("%-24s %-24s %-24s" % tuple(columns))
    for row in zip(*columns.values()):
        print("%-24s %-24s %-24s" % row)


if __name__ == "__main__":
    main()
