"""The pytest plugin, for tests that run pytest in another process."""

from importlib.metadata import entry_points


def arguments() -> tuple[str, ...]:
    """Return the arguments that load the plugin if the project is not installed, so that pytest does not find it."""
    names = {entry.name for entry in entry_points(group="pytest11")}
    return () if "kernel-harness" in names else ("-p", "harness.pytest_plugin")
