"""A project's settings are read from its pyproject.toml, and a wrong one is named."""

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.project_settings import ProjectSettings, read_project_settings


def test_a_project_without_settings_has_the_defaults(tmp_path: Path) -> None:
    assert read_project_settings(tmp_path) == ProjectSettings()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert read_project_settings(tmp_path) == ProjectSettings()


def test_paths_refer_to_the_project(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    text = '[tool.kernel-harness]\ndevice = "h200"\nwith = ["src", "fla-core==0.6.0"]\n'
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert read_project_settings(tmp_path) == ProjectSettings(
        device="h200", libraries=(str(tmp_path / "src"), "fla-core==0.6.0")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device = 3", "device = 3: write a text"),
        ('with = "."', r"with = '\.': write a list of texts"),
        ('devices = "h200"', "unknown setting 'devices': did you mean device"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.kernel-harness]\n{text}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        read_project_settings(tmp_path)
    assert "pyproject.toml: [tool.kernel-harness] " in str(caught.value)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool", encoding="utf-8")
    with pytest.raises(UsageError, match=r"pyproject\.toml: "):
        read_project_settings(tmp_path)
