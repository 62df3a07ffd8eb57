"""All-reduce benchmark that runs in the ranks. The first rank prints the table that nccl-tests prints."""
