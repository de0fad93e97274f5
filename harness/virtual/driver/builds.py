"""The folder of builds: what engines leave there for the compiler beside the search, and what that leaves for later.

Names only, and light to import: the parent process reads the folder too.
"""

FOLDER_VARIABLE = "HARNESS_BUILDS"
"""Names the folder to engines; nothing is left where it is not set."""
KEPT_VARIABLE = "HARNESS_KEPT_TTIR"
"""Names the folder that keeps the TTIR of kernels that cannot be executed; nothing is kept where it is not set."""
BUILD_SUFFIX = ".json"
"""A build that waits for the compiler: one line of JSON with architecture, options, shape and TTIR."""
RESOURCES_SUFFIX = ".resources"
"""What the compiler said of a build; the build itself is gone then."""
