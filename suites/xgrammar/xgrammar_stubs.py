"""What xgrammar's kernels need from the rest of the package: nothing.  The file that `stubs` of an op names."""

MODULES: dict[str, dict[str, object]] = {}
