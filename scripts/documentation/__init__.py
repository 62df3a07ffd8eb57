"""The parts of the documentation that are made from the code: options, keys, variables, exit codes, JSON."""
