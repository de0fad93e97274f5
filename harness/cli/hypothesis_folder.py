"""The folder in which Hypothesis keeps its data."""

from hypothesis.configuration import set_hypothesis_home_dir

from harness.model.case import HARNESS_FOLDER
from harness.search.session import prepared


def use_hypothesis_folder() -> None:
    """Make Hypothesis keep its data in `.harness`, not in `.hypothesis`."""
    set_hypothesis_home_dir(prepared(HARNESS_FOLDER) / "hypothesis")
