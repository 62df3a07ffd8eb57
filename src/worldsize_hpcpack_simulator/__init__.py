"""A head node of HPC Pack to try the compute with: HTTPS, jobs in memory, nodes that really run their tasks."""
