"""All-reduce of MPI, by mpi4py.

mpirun -n 2 python -m allreduce.by_mpi --sizes 8,1048576
"""

from __future__ import annotations

import sys
from array import array

try:
    from mpi4py import MPI
except ImportError as error:
    sys.exit(f"all-reduce by mpi needs mpi4py ({error}): --environment with one that has it")

from .pattern import parts, repeats, sums
from .sweep import Reducer, parse_arguments, run_sweep, stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES = {"float32": ("f", MPI.FLOAT), "float64": ("d", MPI.DOUBLE)}


class MpiReducer(Reducer):
    has_out_of_place = True
    backend = "mpi"

    def __init__(self, dtype: str, largest: int) -> None:
        self._world = MPI.COMM_WORLD
        self.rank, self.ranks = self._world.Get_rank(), self._world.Get_size()
        self._code, self._type = _TYPES[dtype]
        self.element = array(self._code).itemsize
        count = max(1, largest // self.element)
        self.check_memory(largest, 2)
        try:
            self._buffer, self._other = (array(self._code, [0.0]) * count for _ in range(2))
        except MemoryError:
            stop(f"all-reduce of {largest} bytes: there is not enough memory")
        name, version = MPI.get_vendor()
        self.software = {"MPI": f"{name} {'.'.join(map(str, version))}"}

    def reduce(self, count: int) -> None:
        self._world.Allreduce(MPI.IN_PLACE, [self._buffer, count, self._type])

    def reduce_out(self, count: int) -> None:
        self._world.Allreduce([self._buffer, count, self._type], [self._other, count, self._type])

    def zero(self, count: int) -> None:
        for piece, nothing in self._pieces(self._buffer, count, [0]):
            piece[:] = nothing

    def count_wrong(self, count: int, out: bool) -> int:
        for piece, own in self._pieces(self._buffer, count, parts(self.rank, self.ranks)):
            piece[:] = own
        if out:
            self.reduce_out(count)
        else:
            self.reduce(count)
        found = self._pieces(self._other if out else self._buffer, count, sums(self.ranks))
        return int(self._world.allreduce(sum(_differences(piece, right) for piece, right in found)))

    def _pieces(self, buffer: array[float], count: int, values: list[int]) -> Iterator[tuple[memoryview, memoryview]]:
        """Yield each piece of the first `count` elements of `buffer`, as a pair with an equally long piece of the
        repeated `values`, to be filled from it or compared with it."""
        whole, repeated = memoryview(buffer)[:count], memoryview(array(self._code, values) * repeats(values))
        for start in range(0, count, len(repeated)):
            piece = whole[start : start + len(repeated)]
            yield piece, repeated[: len(piece)]

    def gather(self, text: str) -> list[str]:
        return list(self._world.allgather(text))

    def barrier(self) -> None:
        self._world.Barrier()

    def slowest(self, value: float) -> float:
        return float(self._world.allreduce(value, MPI.MAX))

    def from_first(self, value: int) -> int:
        return int(self._world.bcast(value, 0))


def _differences(piece: memoryview, right: memoryview) -> int:
    """Return the number of elements of `piece` that differ from those of `right`. The elements are compared one by one
    only if the bytes differ; comparing the bytes takes no time."""
    if piece.tobytes() == right.tobytes():
        return 0
    return sum(one != other for one, other in zip(piece, right))  # no strict=: Python 3.8; equal lengths


def main() -> None:
    arguments = parse_arguments()
    run_sweep(MpiReducer(arguments.dtype, arguments.sizes[-1]), arguments)


if __name__ == "__main__":
    main()
