"""Where releases of SGLang keep a function: kernels moved to `sglang.kernels.ops` in 0.5.16, and some moved again."""

from importlib import import_module

OPS = "sglang.kernels.ops."


def function(name, *modules):
    """Return the function of the first of these modules that has it; newer places come first."""
    *newer, oldest = modules
    for module in newer:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    return getattr(import_module(oldest), name)  # an import error is that of a release without the function
