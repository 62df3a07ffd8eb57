"""A simulated head node of HPC Pack to test the compute with: HTTPS, jobs in memory, nodes that really run their
tasks."""
