"""All-reduce of MPI, by mpi4py.

mpirun -n 2 python -m allreduce.by_mpi --sizes 8,1048576
"""

from __future__ import annotations

import sys
from array import array

try:
    from mpi4py import MPI
except ImportError as error:
    sys.exit(f"all-reduce by mpi needs mpi4py ({error}): name an environment that has it")

from .sweep import Reducer, parse_arguments, run_sweep, stop

_TYPES = {"float32": ("f", MPI.FLOAT), "float64": ("d", MPI.DOUBLE)}


class MpiReducer(Reducer):
    has_out_of_place = True
    backend = "mpi"

    def __init__(self, dtype: str, largest: int) -> None:
        self._world = MPI.COMM_WORLD
        self.rank, self.ranks = self._world.Get_rank(), self._world.Get_size()
        code, self._type = _TYPES[dtype]
        self.element = array(code).itemsize
        count = max(1, largest // self.element)
        try:
            self._buffer, self._other = (array(code, bytes(count * self.element)) for _ in range(2))
        except MemoryError:
            stop(f"all-reduce of {largest} bytes: there is not enough memory")
        name, version = MPI.get_vendor()
        self.software = {"MPI": f"{name} {'.'.join(map(str, version))}"}

    def reduce(self, count: int) -> None:
        self._world.Allreduce(MPI.IN_PLACE, [self._buffer, count, self._type])

    def reduce_out(self, count: int) -> None:
        self._world.Allreduce([self._buffer, count, self._type], [self._other, count, self._type])

    def zero(self) -> None:
        empty = memoryview(bytes(min(1 << 20, len(self._buffer) * self.element)))
        whole = memoryview(self._buffer).cast("B")
        for start in range(0, len(whole), len(empty)):
            part = whole[start : start + len(empty)]
            part[:] = empty[: len(part)]

    def count_wrong(self, count: int, out: bool) -> int:
        """Of many elements the first and last thousand: nothing but Python looks at them here."""
        looked = [*range(min(count, 1000)), *range(max(1000, count - 1000), count)]
        self.zero()
        for index in looked:
            self._buffer[index] = index % 3 + 1 if index % self.ranks == self.rank else 0
        if out:
            self.reduce_out(count)
        else:
            self.reduce(count)
        found = self._other if out else self._buffer
        wrong = sum(found[index] != index % 3 + 1 for index in looked)
        return int(self._world.allreduce(wrong))

    def barrier(self) -> None:
        self._world.Barrier()

    def slowest(self, value: float) -> float:
        return float(self._world.allreduce(value, MPI.MAX))

    def from_first(self, value: int) -> int:
        return int(self._world.bcast(value, 0))


def main() -> None:
    arguments = parse_arguments()
    run_sweep(MpiReducer(arguments.dtype, arguments.sizes[-1]), arguments)


if __name__ == "__main__":
    main()
