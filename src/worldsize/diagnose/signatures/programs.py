"""Messages of Python and of a training script's own code."""

from __future__ import annotations

from worldsize.diagnose.signatures.signature import Signature

PROGRAMS = (
    Signature(
        "rank-missing",
        r"KeyError: '(?P<detail>RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT)'"
        r"|environment variable (?P<detail2>RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set",
        "it looked for a variable of ranks that this process does not have",
        "see what starts this process: `conventions:` of the job may leave it out, and so may `env -i`, ssh or sudo in "
        "the command",
        "PyTorch: torch/distributed/rendezvous.py; Python",
    ),
    Signature(
        "module-missing",
        r"ModuleNotFoundError: No module named '(?P<detail>[^']+)'|python[\d.]*: No module named (?P<detail2>[\w.]+)$",
        "a Python module is not installed",
        "add it to the job's `environment`; a module of your own must be in the job's `code`",
        "Python",
    ),
    Signature(
        "import-failed",
        r"ImportError: (?!Caught )(?P<detail>.*)",
        "an import failed",
        "the versions that are installed do not fit, or a file of yours hides a package of the same name",
        "Python",
        raised=True,
    ),
    Signature(
        "checkpoint-mismatch",
        r"Error\(s\) in loading state_dict|size mismatch for [\w.]+: copying a param"
        r"|(?:Missing|Unexpected) key\(s\) in state_dict: \""
        r"|loaded state dict (?:contains a parameter group that doesn't match"
        r"|has a different number of parameter groups)",
        "the checkpoint is of another model than the one that it is loaded into",
        "build the model as it was when the checkpoint was written; keys that begin with `module.` come from a model "
        "wrapped in DistributedDataParallel",
        "PyTorch: torch/nn/modules/module.py",
    ),
    Signature(
        "file-damaged",
        r"Weights only load failed(?s:.*)Unsupported operand (?:60|118|123)\b",
        "the file that it loads as a checkpoint is a text file",
        "look at its first lines: a pointer of Git LFS (`git lfs pull`), or a server's error page in place of a "
        "download",
        "PyTorch: torch/serialization.py",
        raised=True,
    ),
    Signature(
        "checkpoint-objects",
        r"Weights only load failed(?:(?s:.*)Unsupported (?:global|class): GLOBAL (?P<detail>\S+))?",
        "the checkpoint holds objects that torch.load does not read unless it is allowed to",
        "save state_dict() and plain values alone; for a file that you trust, torch.load(…, weights_only=False) "
        "or torch.serialization.add_safe_globals([…])",
        "PyTorch: torch/serialization.py",
        raised=True,
    ),
    Signature(
        "file-damaged",
        r"UnpicklingError|PytorchStreamReader failed|BadZipFile|BadGzipFile|EOFError: Ran out of input"
        r"|unexpected EOF, expected|SafetensorError|file signature not found|truncated file|image file is truncated"
        r"|UnidentifiedImageError|Compressed file ended before|file seems not fully written|EOF: reading array"
        r"|tarfile\.ReadError|DataLossError",
        "a file that it reads is cut short, damaged, or not of the kind that it should be",
        "fetch it or write it again; several ranks that write one file at once damage it: let rank 0 write, under "
        "another name, then rename",
        "pickle, PyTorch, zipfile, gzip, tarfile, numpy, safetensors, h5py, Pillow, TensorFlow",
        raised=True,
    ),
    Signature(
        "device-mismatch",
        r"Expected all tensors to be on the same device|Tensor on device \S+ is not on the expected device"
        r"|Input type \(torch\.cuda\.\w+\) and (?:weight|bias) type \(torch\.(?!cuda)\w+\)"
        r"|Input type \(torch\.(?!cuda)\w+\) and (?:weight|bias) type \(torch\.cuda\.\w+\)",
        "tensors are on different devices",
        "send the model and each batch to the same device, before the optimizer is made",
        "PyTorch",
        raised=True,
    ),
    Signature(
        "type-mismatch",
        r"must have the same dtype, but got|to have the same dtype, but got|expected scalar type \w+ but found \w+"
        r"|Input type \(\S+\) and (?:weight|bias) type \(\S+\) should be the same"
        r"|expected target dtype to be|was expected to be an? \w+ tensor but is an? \w+ tensor",
        "numbers of different types meet (float and double, …)",
        "numpy makes float64 and torch float32: .float() on the batch, .long() on labels; with half precision, the "
        "model and its input alike, or torch.autocast",
        "PyTorch, TensorFlow",
        raised=True,
    ),
    Signature(
        "shape-mismatch",
        r"mat1 and mat2 shapes cannot be multiplied|The size of tensor a \(\d+\) must match the size of tensor b"
        r"|The expanded size of the tensor \(\d+\) must match the existing size|Sizes of tensors must match except"
        r"|stack expects each tensor to be equal size|shape mismatch|shape '\[[^\]]*\]' is invalid for input of size"
        r"|Expected input batch_size \(\d+\) to match target batch_size|The shape of the mask \[.*\] at index"
        r"|expected input\[.*\] to have \d+ channels, but got|Given normalized_shape=|running_mean should contain"
        r"|invalid tensor size at index"
        r"|must be equal to input_size\. Expected|Expected size for first two dimensions of batch2 tensor"
        r"|could not be broadcast together with|could not broadcast input array from shape|cannot reshape array of size"
        r"|mismatch in its core dimension|all (?:the )?input array(?: dimension)?s .*must (?:match exactly"
        r"|have the same)"
        r"|Matrix size-incompatible|Incompatible shapes: \[|in both shapes must be equal"
        r"|Input to reshape is a tensor with"
        r"|is incompatible with the layer: expected|got incompatible shapes for broadcasting"
        r"|cannot reshape array of shape"
        r"|requires contracting dimensions to have the same shape|Cannot concatenate arrays with shapes that differ",
        "shapes of arrays do not fit together",
        "the traceback names the line; with several ranks the last batch may be smaller (drop_last=True)",
        "PyTorch, numpy, TensorFlow, JAX",
        raised=True,
    ),
    Signature(
        "index-out-of-range",
        r"index out of range in self|Target -?\d+ is out of bounds|index -?\d+ is out of bounds for (?:dimension|axis)",
        "an index, or a label, is out of range",
        "an embedding needs as many rows as there are tokens, a classifier as many outputs as there are labels",
        "PyTorch, numpy",
        raised=True,
    ),
    Signature(
        "not-picklable",
        r"[Cc]an'?t (?:get local object|pickle)|cannot pickle '|PicklingError",
        "an object cannot be handed to a child process",
        "functions and classes that loader workers or spawned processes get must be at the top of a module",
        "Python: pickle",
        raised=True,
    ),
    Signature(
        "main-guard",
        r"An attempt has been made to start a new process before",
        "a spawned child executed the script's top again",
        'put the work of the script under `if __name__ == "__main__":`',
        "Python: multiprocessing/spawn.py",
    ),
    Signature(
        "arguments",
        r"error: (?:unrecognized arguments|the following arguments are required|argument \S+: |invalid choice"
        r"|ambiguous option: |one of the arguments )|Error: (?:No such (?:option|command)|Missing (?:option|argument)"
        r"|Invalid value for |Got unexpected extra argument)|FATAL Flags parsing error"
        r"|Some specified arguments are not used by the HfArgumentParser|ERROR: Could not consume arg"
        r"|Could not override '|MissingMandatoryValue|ConfigAttributeError|ConfigKeyError",
        "the script refused its arguments or its configuration",
        "`--dry-run` shows the command as it will be executed",
        "argparse, click, absl, Fire, transformers, Hydra",
    ),
    Signature(
        "path-missing",
        r"FileNotFoundError: \[Errno 2\] No such file or directory: ['\"](?P<detail>.*?)['\"](?: -> .*)?(?:$|\n)"
        r"|(?:^|[\s:'])(?P<detail7>[^\s:']+): Cannot \w+: No such file or directory$"
        r"|(?:^|[\s;:'])(?P<detail2>[^\s;:']+)'?[:;] No such file or directory(?:$|\n| \[Op:)"
        r"|NotADirectoryError: \[Errno 20\] .*: '(?P<detail3>.*)'"
        r"|FileNotFoundError: (?:No such file or directory: )?(?P<detail4>[^\s:]+)(?: not found\.)?(?:$|\n)"
        r"|\(unable to open file: name = '(?P<detail5>[^']*)', errno = 2|FileNotFoundError: (?!Caught )"
        r"|SavedModel file does not exist at: (?P<detail6>[^\s{]+)",
        "a file does not exist",
        "a relative path counts from the copy of `code:`; name data as an input; a node's own disk is not on "
        "the others",
        "Python, the C library, numpy, safetensors, h5py, TensorFlow",
    ),
    Signature(
        "permission",
        r"PermissionError: \[Errno (?:1|13)\] [^:]*(?:: '(?P<detail>.*)')?"
        r"|(?:^|[\s:])(?P<detail2>[^\s:]+): Permission denied$|\bEACCES\b"
        r"|Read-only file system(?:: '(?P<detail3>.*)')?",
        "it lacks the permission to read, write or execute a file",
        "write below `outputs/` or to an output of the job, since `code/` is read-only; a script that is executed "
        "itself needs `chmod +x`",
        "Python, the C library",
    ),
    Signature(
        "not-finite",
        r"\b(?:[Ll]oss|[Gg]rad\w*|[Aa]ctivations?|[Oo]utput|norm)\b.{0,200}\b(?:nan|NaN|NAN|inf|Inf|[Nn]on-?finite"
        r"|not finite)\b"
        r"|\b(?:nan|NaN|NAN|inf|[Nn]on-?finite|[Ii]nfinite) (?:[Ll]oss|[Gg]rad\w*|[Aa]ctivations?|[Oo]utputs?)\b"
        r"|contains? (?:(?:nan|NaN|infs?)\b|either `inf`)|returned nan values|contained non-finite values"
        r"|found invalid values:\s+tensor\(.*\bnan\b|cannot convert float (?:NaN|infinity) to integer"
        r"|Tensor had (?:NaN|Inf)|FloatingPointError: invalid value \(nan\)"
        r"|[Ll]oss scale already at minimum",
        "a loss, gradient or value was not finite",
        "a smaller learning rate, gradient clipping, a look at the batch; torch.autograd.set_detect_anomaly(True)",
        "PyTorch, numpy, TensorFlow, JAX, scikit-learn; scripts",
        raised=True,
    ),
    Signature(
        "assertion",
        r"AssertionError|Assertion .*failed",
        "an assertion failed",
        "the traceback names the line",
        "Python, C",
        raised=True,
    ),
    Signature(
        "interrupted",
        r"^KeyboardInterrupt$",
        "it was interrupted (SIGINT)",
        "find out what sent INT to this process alone: a user (Ctrl-C), a program on the node, a scheduler",
        "Python",
    ),
    Signature(
        "loader-exception",
        r"Caught (?P<kind>\w+) in DataLoader worker process (?P<worker>\d+)",
        "a {kind} in worker {worker} of a DataLoader",
        "it is an exception of the Dataset: the second traceback names the line; num_workers=0 runs without workers",
        "PyTorch: torch/_utils.py",
        raised=True,
    ),
)
