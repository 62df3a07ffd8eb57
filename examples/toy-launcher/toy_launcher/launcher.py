"""One shell on each node starts the node's ranks. This file travels to the nodes, and needs nothing but the agent."""

import os

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.launcher_failures import launcher_failure
from worldsize.agent.launchers.rank_file import write_rank_files
from worldsize.plan.launchers import LauncherFacts

FACTS = LauncherFacts("", hostfile=True, sets_umask=True, title="toys {first} to {last}")

START = """for rank in $RANKS; do (. "$0/rank-$rank"; exec "$@") & pids="$pids $!"; done
for pid in $pids; do wait $pid || exit $?; done"""


class ToyLauncher(Launcher):
    def prepare(self, launch):
        os.makedirs(launch.paths.launch_dir, 0o700, exist_ok=True)
        write_rank_files(launch.ranks(), launch.plan.launcher, {}, launch.paths, launch.plan.ranks_umask)
        return {**launch.environ, "TOY": "prepared"}

    def processes(self, launch):
        process = launch.node_process()
        environment = {**launch.environ, "RANKS": " ".join(map(str, process.ranks))}
        argv = ("sh", "-c", START, launch.paths.launch_dir, *launch.plan.argv)
        return [process._replace(argv=argv, environment=environment)]

    def failures(self, end):
        return [launcher_failure(end)]


LAUNCHER = ToyLauncher()
