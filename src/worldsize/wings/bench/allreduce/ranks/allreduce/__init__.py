"""All-reduce, measured by the ranks that take part in it; the first prints the table that nccl-tests prints."""
