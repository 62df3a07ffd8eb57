"""A real Slurm cluster on one machine, for the tests; see README.md."""
