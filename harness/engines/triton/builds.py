"""The folder of builds: engines leave builds there, and the background compiler replaces each with its resources.

This module has names only and imports nothing, because the parent process reads the folder too.
"""

BUILDS_VARIABLE = "HARNESS_BUILDS"
"""The variable with the folder.  Without it engines leave no builds."""
KEPT_TTIR_VARIABLE = "HARNESS_KEPT_TTIR"
"""The variable with the folder for the TTIR of kernels that cannot be executed.  Without it no TTIR is kept."""
PASSING_VARIABLE = "HARNESS_BUILDS_PASS"
"""Set where the folder ends with the processes that use it now: code in it serves few launches."""
BUILD_SUFFIX = ".json"
"""The suffix of a build that waits for the compiler: JSON with architecture, options, shape and TTIR."""
RESOURCES_SUFFIX = ".resources"
"""The suffix of the compiler's result.  The build itself is then deleted."""
