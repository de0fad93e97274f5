"""`ci/first_steps.py` runs what the README says; `ci/check_package.sh` runs it."""

from ci.first_steps import STEPS, commands_of_readme


def test_every_command_of_the_section_use_is_run_in_its_order() -> None:
    assert commands_of_readme() == tuple(STEPS)
