"""srun, scontrol and sbcast of a batch script on virtual nodes. The agent in the run directory implements them."""

import os
import sys

run_dir = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(run_dir, "agent.pyz"))

from worldsize.wings.batch_scripts.agent.programs import main  # noqa: E402

sys.exit(main(run_dir, sys.argv[1:]))
