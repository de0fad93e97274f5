"""Packages of which only the modules with kernels are imported."""

import sys
from collections.abc import Callable, Generator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from harness.errors import MissingPart, SuiteError
from harness.workers.zygote.import_stubs import stub_package

KERNEL = "# @triton.jit\n"

Stub = Callable[..., None]


def package(folder: Path, files: Mapping[str, str]) -> None:
    """Write the package `lib`, whose `__init__` needs what no machine has."""
    for name, text in {"__init__.py": "import surely_no_gpu\n", **files}.items():
        path = folder / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Stub]:
    """Stub the package with what a suite provides."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)

    def apply(file: str = "stubs.py", **provided: object) -> None:
        module = ModuleType("stubs")
        vars(module).update(provided, __file__=file)
        stub_package("lib", module)

    yield apply
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_only_modules_with_kernels_are_imported(tmp_path: Path, stub: Stub) -> None:
    package(
        tmp_path,
        {
            "ops/__init__.py": "raise AssertionError('it does not run')\n",
            "ops/kernels.py": f"{KERNEL}from lib.layers import Layer\nfrom lib.ops import more\nVALUE = more.VALUE\n",
            "ops/more.py": f"{KERNEL}VALUE = 7\n",
            "layers.py": "raise AssertionError('it has no kernel')\n",
        },
    )
    stub(MODULES={})
    assert import_module("lib.ops.kernels").VALUE == 7


def test_a_suite_provides_names_of_other_modules(tmp_path: Path, stub: Stub) -> None:
    package(
        tmp_path,
        {
            "kernels.py": f"{KERNEL}from lib.sizes import cdiv\nfrom lib.plain import TWO\nimport compiled_part\n"
            "VALUE = cdiv(5, TWO) + compiled_part.ONE\n",
            "sizes.py": "import surely_no_gpu\n",
            "plain.py": "TWO = 2\n",
        },
    )
    stub(
        MODULES={"lib.sizes": {"cdiv": lambda a, b: -(-a // b)}, "compiled_part": {"ONE": 1}},
        IMPORTED=("lib.plain",),
    )
    assert import_module("lib.kernels").VALUE == 4


def test_a_pattern_imports_all_modules_below_a_package(tmp_path: Path, stub: Stub) -> None:
    package(
        tmp_path,
        {
            "ops/__init__.py": "import surely_no_gpu\n",
            "ops/norm/__init__.py": "from lib.ops.norm.launcher import launch\n",
            "ops/norm/launcher.py": "from lib.jit import build\ndef launch():\n    return 42\n",
            "jit.py": "import surely_no_gpu\n",
        },
    )
    stub(IMPORTED=("lib.ops.*",))
    assert import_module("lib.ops.norm").launch() == 42
    assert not import_module("lib.ops.norm.launcher").build


def test_a_module_that_this_release_lacks_stays_missing(tmp_path: Path, stub: Stub) -> None:
    package(tmp_path, {"kernels.py": KERNEL})
    stub(MODULES={})
    with pytest.raises(ModuleNotFoundError, match=r"lib\.newer"):
        import_module("lib.newer")


def test_stubs_are_called_while_a_module_is_imported_and_not_later(tmp_path: Path, stub: Stub) -> None:
    package(
        tmp_path,
        {
            "kernels.py": f"{KERNEL}from lib.registry import register, rocm, Base\nlogger = register(__name__)\n"
            "@register\ndef launch():\n    return 42\n"
            "class Layer(Base):\n    size: rocm.Size | None\n"
            "KIND = 'rocm' if rocm.is_available() or rocm.version() >= 6 else 'cuda'\n"
            "def ask():\n    return rocm.is_available()\n",
            "registry.py": "",
        },
    )
    stub(MODULES={})
    kernels = import_module("lib.kernels")
    assert (kernels.launch(), kernels.KIND) == (42, "cuda")
    with pytest.raises(MissingPart) as missing:
        kernels.ask()
    assert str(missing.value) == (
        "lib.registry.rocm.is_available is called, but only the kernels of lib are imported: "
        'provide it in stubs.py, by MODULES["lib.registry"] = {"rocm": …}'
    )


def test_a_stubbed_logger_may_be_called_in_a_case(tmp_path: Path, stub: Stub) -> None:
    package(
        tmp_path,
        {
            "kernels.py": f"{KERNEL}from lib.logger import init_logger\nfrom lib.utils import logging\n"
            "logger = init_logger(__name__)\n"
            "def launch():\n    logger.warning_once('slow')\n"
            "    if logging.get_logger('lib').isEnabledFor(10):\n        raise AssertionError\n    return 42\n",
            "logger.py": "",
            "utils.py": "",
        },
    )
    stub(MODULES={})
    assert import_module("lib.kernels").launch() == 42


def test_a_stubbed_package_has_the_version_of_its_distribution(tmp_path: Path, stub: Stub) -> None:
    metadata = tmp_path / "lib-1.2.3.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: lib\nVersion: 1.2.3\n", encoding="utf-8")
    package(
        tmp_path,
        {"kernels.py": f"{KERNEL}import lib\nfrom lib.version import __version__\n", "version.py": ""},
    )
    stub(MODULES={})
    kernels = import_module("lib.kernels")
    assert (kernels.__version__, kernels.lib.__version__) == ("1.2.3", "1.2.3")


def test_an_installed_distribution_comes_before_its_stub(tmp_path: Path, stub: Stub) -> None:
    package(tmp_path, {"kernels.py": f"{KERNEL}import json\nVALUE = json.loads('3')\n"})
    stub(MODULES={"json": {"loads": None}})
    assert import_module("lib.kernels").VALUE == 3


def test_a_file_without_stubs_is_refused(tmp_path: Path, stub: Stub) -> None:
    package(tmp_path, {})
    with pytest.raises(SuiteError, match=r"stubs\.py provides no stubs for lib: define MODULES or IMPORTED"):
        stub()


def test_a_package_has_one_file_of_stubs(stub: Stub) -> None:
    stub(MODULES={})
    stub(MODULES={})
    with pytest.raises(SuiteError, match=r"stubs\.py and others\.py provide stubs for lib: use one file"):
        stub(file="others.py", MODULES={})
