"""Lines of what Python and a training script's own code say."""

from __future__ import annotations

from unit.diagnose.signature_example import Example

PROGRAM_EXAMPLES = (
    Example("rank-missing", "KeyError: 'RANK'", "RANK is set", True),
    Example(
        "rank-missing",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR "
        "expected, but not set",
        "KeyError: 'RANKS'",
        True,
    ),
    Example("module-missing", "ModuleNotFoundError: No module named 'torchvision'", "module torchvision found", True),
    Example("module-missing", "/usr/bin/python3.11: No module named nosuch.tool", "no module named so is needed"),
    Example("import-failed", "ImportError: cannot import name 'x' from 'y' (/a/y.py)", "imports were checked", True),
    Example(
        "checkpoint-mismatch",
        "RuntimeError: Error(s) in loading state_dict for Net:",
        "the state_dict was loaded without errors",
    ),
    Example(
        "checkpoint-mismatch",
        "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        "loaded state dict of epoch 3",
    ),
    Example(
        "checkpoint-objects",
        "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two "
        "options\n\tWeightsUnpickler error: Unsupported global: GLOBAL __main__.Config was not an allowed global",
        "weights only were loaded",
        True,
    ),
    Example(
        "checkpoint-objects",
        "_pickle.UnpicklingError: Weights only load failed.\nWeightsUnpickler error: \n\nUnsupported operand 149\n",
        "ValueError: unsupported operand of a weight",
        True,
    ),
    Example("file-damaged", "_pickle.UnpicklingError: pickle data was truncated", "pickle data was written", True),
    Example(
        "file-damaged",
        "_pickle.UnpicklingError: Weights only load failed.\nWeightsUnpickler error: \n\nUnsupported operand 118\n",
        "the sequence is truncated to 512 tokens",
        True,
    ),
    Example(
        "file-damaged",
        "ValueError: Failed to read all data for array. Expected (100,) = 100 elements, could only read 9 elements. "
        "(file seems not fully written?)",
        "ValueError: EOF",
        True,
    ),
    Example(
        "file-damaged",
        "OSError: Unable to synchronously open file (truncated file: eof = 5904, sblock->base_addr = 0)",
        "OSError: could not open file",
        True,
    ),
    Example(
        "shape-mismatch",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)",
        "mat1 and mat2 have shapes 4x3 and 3x4",
        True,
    ),
    Example(
        "shape-mismatch",
        "ValueError: operands could not be broadcast together with shapes (3,) (4,) ",
        "ValueError: the message could not be broadcast",
        True,
    ),
    Example(
        "shape-mismatch",
        "InvalidArgumentError: {{function_node __wrapped__AddV2}} Incompatible shapes: [2] vs. [3] [Op:AddV2] name: ",
        "ValueError: incompatible versions: 2 and 3",
        True,
    ),
    Example(
        "shape-mismatch",
        "TypeError: dot_general requires contracting dimensions to have the same shape, got (3,) and (2,).",
        "TypeError: add requires two arguments",
        True,
    ),
    Example(
        "type-mismatch",
        "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
        "RuntimeError: all have the same dtype",
        True,
    ),
    Example(
        "type-mismatch",
        "RuntimeError: Input type (double) and bias type (float) should be the same",
        "RuntimeError: input type is double",
        True,
    ),
    Example(
        "type-mismatch",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
        "RuntimeError: the weight is of type c10::Half",
        True,
    ),
    Example(
        "path-missing",
        "FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'a'",
        "LookupError: no such file in the table",
        True,
    ),
    Example("index-out-of-range", "IndexError: Target 5 is out of bounds.", "IndexError: pop from empty list", True),
    Example(
        "device-mismatch",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "all tensors are on one device",
        True,
    ),
    Example(
        "device-mismatch",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        "RuntimeError: the device of the input is cuda:0",
        True,
    ),
    Example(
        "not-picklable",
        "AttributeError: Can't get local object 'main.<locals>.<lambda>'",
        "the object was pickled",
        True,
    ),
    Example(
        "main-guard",
        "RuntimeError: An attempt has been made to start a new process before the current process has finished",
        "a new process was started",
    ),
    Example("not-finite", "ValueError: loss is nan at step 12", "ValueError: loss must be info_nce or nanmean", True),
    Example("not-finite", "FloatingPointError: NaN loss", "the loss is finite", True),
    Example(
        "not-finite",
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        "ValueError: the file contains information",
        True,
    ),
    Example(
        "not-finite",
        "InvalidArgumentError: loss : Tensor had NaN values [Op:CheckNumerics] name: ",
        "ValueError: could not convert string to float: 'nan'",
        True,
    ),
    Example("arguments", "train.py: error: unrecognized arguments: --learning-rate", "arguments: --lr 0.1"),
    Example("arguments", "Error: Missing option '--lr'.", "Error: a missing value in column 3"),
    Example("arguments", "FATAL Flags parsing error: Unknown command line flag 'lr'", "flags were parsed"),
    Example(
        "path-missing",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'",
        "file data/train.bin found in its directory",
    ),
    Example("path-missing", "cat: data/train.bin: No such file or directory", "there is no such file or directory yet"),
    Example(
        "path-missing",
        "NotFoundError: {{function_node __wrapped__ReadFile}} /data/a; No such file or directory [Op:ReadFile]",
        "ValueError: the key was not found",
    ),
    Example("path-missing", "FileNotFoundError: data/train.txt not found.", "data/train.txt not found, using defaults"),
    Example("permission", "PermissionError: [Errno 13] Permission denied: '/data'", "permission granted"),
    Example("permission", "bash: line 1: ./run.sh: Permission denied", "n1: Permission denied (publickey)."),
    Example("assertion", "AssertionError: 3 != 4", "assertions are on", True),
    Example("interrupted", "KeyboardInterrupt", "KeyboardInterrupt was caught: the state is saved"),
    Example(
        "loader-exception",
        "ValueError: Caught ValueError in DataLoader worker process 3.",
        "no exception in DataLoader worker process 3",
        True,
    ),
)
