"""All tests of the suite, for a test module of another project: `from worldsize_conformance.suite import *`.

Tests of optional abilities that a compute lacks, by its `capabilities`, are skipped.
"""

from worldsize_conformance import (
    commands_on_nodes,
    lifecycle,
    ranks,
    requeue,
    search,
    several,
    umask,
    warm_start,
    warnings,
)

_PARTS = (lifecycle, ranks, several, requeue, commands_on_nodes, search, umask, warm_start, warnings)
_TESTS = {name: test for part in _PARTS for name, test in vars(part).items() if name.startswith("test_")}
globals().update(_TESTS)
__all__ = list(_TESTS)
