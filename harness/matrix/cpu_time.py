"""The CPU time that a matrix takes."""

import resource


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all processes that it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
