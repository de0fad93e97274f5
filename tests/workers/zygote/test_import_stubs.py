"""Libraries that import a framework around their kernels, on a machine without it."""

import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import pytest

from harness.errors import MissingPart
from harness.workers.zygote.import_stubs import import_past_frameworks

KERNELS = "def answer():\n    return 42\n"


class Library:
    """Packages in a folder on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def imported(self, module: str) -> ModuleType:
        import_past_frameworks(module)
        return sys.modules[module]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Library]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)
    yield Library(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_package_that_imports_a_framework_is_replaced_by_an_empty_one(library: Library) -> None:
    library.write("lib/__init__.py", "import transformers\nfrom lib import models\n")
    library.write("lib/models.py", "raise AssertionError('no op needs models')\n")
    library.write("lib/ops/__init__.py", "DEFAULT = 1\n")
    library.write("lib/ops/kernels.py", KERNELS)
    assert library.imported("lib.ops.kernels").answer() == 42
    assert not hasattr(sys.modules["lib"], "models")
    assert sys.modules["lib.ops"].DEFAULT == 1, "its own __init__ imported no framework, and ran"


def test_a_library_may_raise_its_own_error_for_a_missing_framework(library: Library) -> None:
    library.write(
        "lib/__init__.py",
        "try:\n    import peft\nexcept ImportError:\n    raise ImportError('Please install peft') from None\n",
    )
    library.write("lib/kernels.py", KERNELS)
    assert library.imported("lib.kernels").answer() == 42


def test_a_module_that_uses_only_names_of_a_framework_gets_stubs(library: Library) -> None:
    library.write("lib/__init__.py", "")
    library.write(
        "lib/kernels.py",
        f"from transformers.models import llama, Base\nclass Model(Base):\n    pass\nCONFIG = llama.Config\n{KERNELS}"
        "import transformers\nNEW = transformers.__version__ > '4'\n",
    )
    kernels = library.imported("lib.kernels")
    assert kernels.answer() == 42
    with pytest.raises(MissingPart, match=r"^transformers\.models\.llama\.Config is called, but transformers is not"):
        kernels.CONFIG()


def test_a_module_that_calls_into_a_framework_still_fails(library: Library) -> None:
    library.write("lib/__init__.py", "")
    library.write("lib/kernels.py", "from transformers import register\nregister()\n")
    with pytest.raises(MissingPart, match="add --with transformers"):
        library.imported("lib.kernels")


@pytest.mark.parametrize(
    "statements",
    [
        "from unsloth_zoo.log import logger\nlogger.info('no FP8 here')\nlogger.warning_once('again')\n",
        "from transformers.utils import logging\nlogging.get_logger(__name__).info('hello')\n",
        "from unsloth_zoo.utils import Version\nassert Version('2.13.0+cpu') >= Version('2.4.0')\n",
        "from unsloth_zoo.mlx import is_mlx_available\nassert not is_mlx_available()\n",
        "from unsloth_zoo.compile import torch_compile\n@torch_compile\ndef one():\n    return 1\nassert one() == 1\n",
        "from unsloth_zoo.compile import torch_compile\n@torch_compile(dynamic=True)\ndef one():\n    return 1\n"
        "assert one() == 1\n",
    ],
)
def test_a_module_may_call_stubs_that_have_an_answer_when_it_is_imported(library: Library, statements: str) -> None:
    library.write("lib/__init__.py", "")
    library.write("lib/kernels.py", statements + KERNELS)
    assert library.imported("lib.kernels").answer() == 42


def test_an_optional_framework_stays_missing(library: Library) -> None:
    library.write("lib/__init__.py", "")
    library.write("lib/kernels.py", "try:\n    import peft\nexcept ImportError:\n    peft = None\n")
    assert library.imported("lib.kernels").peft is None
    assert "peft" not in sys.modules


@pytest.mark.parametrize(
    ("init", "error"),
    [
        ("import surely_not_a_framework", ModuleNotFoundError),
        ("from os import surely_not_there", ImportError),
        ("raise RuntimeError('no')", RuntimeError),
    ],
)
def test_other_import_errors_are_raised(library: Library, init: str, error: type[Exception]) -> None:
    library.write("lib/__init__.py", init)
    library.write("lib/kernels.py", KERNELS)
    with pytest.raises(error):
        library.imported("lib.kernels")


def test_a_framework_that_is_installed_is_used(library: Library) -> None:
    library.write("transformers/__init__.py", "VALUE = 7\n")
    library.write("lib/__init__.py", "import transformers\nVALUE = transformers.VALUE\n")
    library.write("lib/kernels.py", KERNELS)
    library.imported("lib.kernels")
    assert sys.modules["lib"].VALUE == 7


def test_packages_that_refuse_without_their_extension_are_empty(library: Library) -> None:
    library.write("transformer_engine/__init__.py", "import transformer_engine.common\n")
    library.write("transformer_engine/common/__init__.py", "raise RuntimeError('install the extension')\n")
    library.write("transformer_engine/common/kernels.py", KERNELS)
    library.write("transformer_engine/pytorch/__init__.py", "import transformer_engine.common\n")
    library.write(
        "transformer_engine/pytorch/launchers.py", "from transformer_engine.common.kernels import answer as launch\n"
    )
    assert library.imported("transformer_engine.pytorch.launchers").launch() == 42


def test_other_packages_keep_their_error(library: Library) -> None:
    library.write("lib/__init__.py", "raise RuntimeError('install the extension')\n")
    library.write("lib/kernels.py", KERNELS)
    with pytest.raises(RuntimeError, match="install the extension"):
        library.imported("lib.kernels")


def test_a_module_that_fails_itself_keeps_its_error(library: Library) -> None:
    library.write("transformer_engine/__init__.py", "")
    library.write("transformer_engine/kernels.py", "raise ValueError('broken')\n")
    with pytest.raises(ValueError, match="broken"):
        library.imported("transformer_engine.kernels")
