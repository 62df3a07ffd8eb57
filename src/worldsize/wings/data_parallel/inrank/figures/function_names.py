"""The names of torch's functions, grouped by their effect on a batch."""

from __future__ import annotations

from typing import Any

READING = frozenset((
    "item", "tolist", "numpy", "__array__", "__repr__", "__str__", "__format__", "__bool__", "__int__", "__float__",
    "__index__", "__contains__", "__complex__", "equal", "allclose", "is_nonzero",
))  # fmt: skip
"""Functions that convert a tensor into a Python value."""

LEAVING = frozenset(("__reduce_ex__", "__dlpack__"))
"""Functions that pass a tensor to code in which it is not followed."""

SIZES = frozenset(("size", "shape", "__len__", "numel", "nelement"))

UNTOUCHED = frozenset((
    "__get__", "dim", "ndim", "ndimension", "dtype", "device", "requires_grad", "is_leaf", "grad_fn",
    "is_floating_point",
    "is_cuda", "is_sparse", "is_nested", "layout", "is_complex", "is_contiguous", "stride", "data_ptr", "element_size",
    "storage_offset", "untyped_storage", "backward", "requires_grad_", "register_hook", "retain_grad", "is_shared",
    "__hash__", "names", "_version", "output_nr", "get_device", "is_quantized", "is_mkldnn",
    "is_meta", "_is_view", "itemsize", "nbytes", "is_inference", "_backward_hooks", "_base", "volatile", "name",
    "__set__", "__delete__", "result_type", "is_tensor", "is_storage", "can_cast", "promote_types", "retains_grad",
    "set_printoptions", "is_signed", "is_conj", "is_neg", "has_names", "share_memory_", "_is_zerotensor",
))  # fmt: skip
"""Functions that return properties of a tensor which do not depend on its batch, or that change nothing in it."""

ALIKE = frozenset((
    "to", "cpu", "cuda", "clone", "detach", "detach_", "data", "float", "double", "half", "bfloat16", "int", "long",
    "short", "bool", "contiguous", "type", "grad", "type_as", "pin_memory", "real",
))  # fmt: skip
"""Functions that return the same values in the same shape."""

LINEAR = ALIKE | {
    "neg", "negative", "reshape", "view", "squeeze", "unsqueeze", "flatten", "expand", "permute", "transpose", "t", "T",
    "__getitem__", "sum", "mean", "select", "narrow", "movedim", "view_as", "reshape_as", "index_select",
}  # fmt: skip
"""Functions of one tensor that preserve sums and means over ranks: if the values are such a sum or mean, so is the
result."""

JOINING = frozenset(("stack", "cat", "concat", "concatenate", "hstack", "vstack"))
ADDING = frozenset(("add", "sub", "subtract", "rsub", "iadd", "isub", "radd"))
SCALING = frozenset(("mul", "multiply", "div", "divide", "true_divide", "imul", "idiv", "itruediv", "rmul", "truediv"))
ARITHMETIC = ADDING | SCALING | {
    "pow", "rpow", "eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod", "floor_divide", "rdiv", "rtruediv",
    "rfloordiv", "floordiv", "mod", "clamp", "clip", "clamp_min", "clamp_max", "maximum", "minimum", "where", "lerp",
    "masked_fill", "fill", "tensor", "as_tensor", "scalar_tensor", "asarray", "addcmul", "addcdiv", "and", "or", "xor",
}  # fmt: skip
"""Functions that compute with the numbers that they get. All other functions use numbers as sizes or positions."""

RANDOM = frozenset(("multinomial", "bernoulli", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet"))
"""Functions that draw random numbers for each sample from its own numbers."""

VIEWS = frozenset(("view", "reshape", "unflatten", "expand", "_unsafe_view"))

PRODUCTS = frozenset((
    "matmul", "mm", "bmm", "mv", "dot", "linear", "addmm", "addbmm", "addmv", "baddbmm", "einsum", "tensordot", "inner",
    "outer", "kron", "bilinear", "embedding", "embedding_bag", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cdist", "gather", "index_select", "rmatmul", "chain_matmul", "multi_dot",
    "scaled_dot_product_attention", "layer_norm", "group_norm", "batch_norm", "instance_norm", "prelu",
))  # fmt: skip
"""Functions whose arguments do not match row by row."""

ALONG = {
    "softmax": 1, "log_softmax": 1, "cumsum": 1, "cumprod": 1, "cummax": 1, "cummin": 1, "logcumsumexp": 1, "sort": 1,
    "argsort": 1, "msort": None, "flip": 1, "roll": 2, "normalize": 2, "topk": 2, "index_select": 1, "gather": 1,
    "scatter": 1, "scatter_add": 1, "index_add": 1, "index_copy": 1, "index_fill": 1, "take_along_dim": 2, "diff": 2,
    "unfold": 1, "repeat_interleave": 2, "renorm": 2, "kthvalue": 2, "select": 1, "narrow": 1, "split": 2, "chunk": 2,
    "tensor_split": 2, "unbind": 1, "take": None, "repeat": None, "tile": None, "flipud": None, "unique": None,
    "tril": None, "triu": None, "cov": None, "corrcoef": None, "masked_select": None, "softmin": 1,
    "cosine_similarity": 2,
    "glu": 1, "rot90": 2, "scatter_reduce": 1, "index_reduce": 1, "put": None, "gradient": None, "cross": 2,
    "cumulative_trapezoid": 9, "diag": None, "diagonal_scatter": None, "fill_diagonal": None, "block_diag": None,
    "cartesian_prod": None, "combinations": None, "kron": None, "hsplit": None, "vsplit": None, "histogram": None,
    "unique_consecutive": None, "isin": None, "searchsorted": None, "bucketize": None,
    "fft_fft": 2, "fft_ifft": 2, "fft_rfft": 2, "fft_irfft": 2, "fft_hfft": 2, "fft_ihfft": 2, "fft_fft2": 2,
    "fft_ifft2": 2, "fft_rfft2": 2, "fft_irfft2": 2, "fft_hfft2": 2, "fft_ihfft2": 2, "fft_fftn": 2, "fft_ifftn": 2,
    "fft_rfftn": 2, "fft_irfftn": 2, "fft_hfftn": 2, "fft_ihfftn": 2, "fft_fftshift": 1, "fft_ifftshift": 1,
    "cdist": None, "pdist": None, "batch_norm": None, "shuffle": None, "masked_scatter": None, "select_scatter": 2,
}  # fmt: skip
"""Functions that mix the elements along one dimension, with the position of the argument `dim`. None means all
dimensions."""

_MATRIX = frozenset((
    "svd", "svdvals", "qr", "pinv", "pinverse", "lstsq", "matrix_rank", "cond", "det", "slogdet", "logdet", "inv",
    "inverse", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "matrix_norm", "matrix_exp", "matrix_power", "lu",
    "lu_factor", "lu_factor_ex", "solve", "solve_triangular", "nuclear_norm", "geqrf", "householder_product",
    "ldl_factor", "inv_ex", "cholesky_ex", "lobpcg", "pca_lowrank", "svd_lowrank", "scaled_dot_product_attention",
))  # fmt: skip
"""Functions of matrices, which are in the last two dimensions."""

_MAKES_FIGURES = frozenset(("item", "tolist", "numpy", "print", "__format__"))
_LAST = frozenset((
    "topk", "sort", "argsort", "kthvalue", "softmax", "log_softmax", "softmin", "diff", "cosine_similarity", "glu",
    "cumulative_trapezoid", "fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_hfft", "fft_ihfft",
))  # fmt: skip
_LAST_TWO = frozenset(("fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2", "fft_hfft2", "fft_ihfft2"))
_DEFAULT_FIRST = frozenset(("split", "chunk", "tensor_split", "unbind"))
_DEFAULTS = {"normalize": 1, "cosine_similarity": 1, "rot90": (0, 1)}


def plain_name(function: Any) -> tuple[str, bool]:
    """Return the name of a torch function without the marks of variants (such as underscores), and whether the function
    changes its first argument in place."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        return getattr(getattr(function, "__self__", None), "__name__", name), False
    if (
        name in READING
        or name in SIZES
        or name in LEAVING
        or name in UNTOUCHED
        or name in ("__getitem__", "__setitem__")
    ):
        return name, False
    if name.startswith("__") and name.endswith("__"):
        bare = name[2:-2]
        return bare, bare.startswith("i") and bare[1:] in _IN_PLACE
    return name.rstrip("_"), name.endswith("_")


_IN_PLACE = frozenset(("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"))


def mixed_dim(name: str, args: Any, kwargs: Any, dims: int) -> Any:
    """Return the dimensions, as a tuple, along which a torch function mixes elements of its first argument, which has
    `dims` dimensions. The tuple is empty for a function that works on each element or sample by itself. None if it
    mixes all dimensions."""
    bare = name.split("_", 1)[1] if name.startswith(("linalg_", "special_")) else name
    if bare in _MATRIX:
        return (dims - 2, dims - 1)
    if bare == "diagonal":
        defaults = (0, 1) if bare == name else (-2, -1)
        given = dict(zip(("offset", "dim1", "dim2"), args[1:]), **kwargs)
        return tuple(given.get(key, default) % dims for key, default in zip(("dim1", "dim2"), defaults))
    name = bare
    if name not in ALONG:
        return ()
    place = ALONG[name]
    if place is None:
        return None
    given = kwargs.get("dim", kwargs.get("dims", args[place] if len(args) > place else _missing_dim(name)))
    if given is None:
        return None
    found = given if isinstance(given, (tuple, list)) else (given,)
    if not all(isinstance(each, int) for each in found):
        return None
    return tuple(each % dims if dims else 0 for each in found)


def _missing_dim(name: str) -> Any:
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    if name in _LAST_TWO:
        return (-2, -1)
    return -1 if name in _LAST else 0 if name in _DEFAULT_FIRST else None


def makes_figures(code: Any) -> bool:
    """Return whether a function of the user, given its code object, reads numbers from tensors or computes losses,
    according to the names in its code."""
    names = {*code.co_names, *code.co_varnames}
    return bool(_MAKES_FIGURES & names) or any("loss" in name or "entropy" in name for name in names)
