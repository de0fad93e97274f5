"""An obstacle to loading is reported with its own error, and does not hang."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HarnessError, LibraryError, SuiteError, WorkerError
from harness.model.op import Requirement
from harness.model.run import Completed
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from tests.workers.setting import DEADLINE_S, DEVICE, MARK, case, specs, survivors_besides_the_shared_zygote

DECLARES = """
from harness.suite import op, tokens

@op(dims={"rows": tokens()}, inputs={}, requires=REQUIRES)
def one(rows):
    STATEMENT
    return rows

@one.reference
def one_reference():
    pass
"""


def suite(folder: Path, statement: str, *, name: str = "suite", requires: tuple[Requirement, ...] = ()) -> str:
    path = folder / f"{name}.py"
    path.write_text(DECLARES.replace("STATEMENT", statement).replace("REQUIRES", repr(requires)), encoding="utf-8")
    return str(path)


def library(folder: Path, text: str) -> str:
    (folder / "library").mkdir()
    (folder / "library" / "kernels_under_test.py").write_text(text, encoding="utf-8")
    return str(folder / "library")


def test_the_library_is_imported_once_from_its_folder(scratch: Path, tmp_path: Path) -> None:
    text = "import os; server = os.getpid()"
    paths = (library(tmp_path, text),)
    file = suite(tmp_path, "import kernels_under_test, os; rows = os.getpid() - kernels_under_test.server")
    with Pool(specs(scratch, suites=(file,), library_paths=paths), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("one", suite=file)).seconds["result"] != 0  # another process than that which imported it


def test_a_variant_comes_before_the_library_in_workers_with_one_zygote(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "number = 1"),)
    (tmp_path / "variant").mkdir()
    (tmp_path / "variant" / "kernels_under_test.py").write_text("number = 2", encoding="utf-8")
    file = suite(tmp_path, "import kernels_under_test; rows = kernels_under_test.number")
    plain = specs(scratch, suites=(file,), library_paths=paths)
    variants = iter((str(tmp_path / "variant"), ""))
    with Pool(lambda device: _variant(plain(device), next(variants)), processes=1, time_limit_s=DEADLINE_S) as pool:
        results = [pool.run(case("one", suite=file)).seconds["result"] for _ in range(2)]
        assert (results, len(pool._workers._zygotes)) == ([2, 1], 1)


def _variant(spec: WorkerSpec, folder: str) -> WorkerSpec:
    return replace(spec, variant_paths=(folder,)) if folder else spec


def test_suites_of_two_checkouts_have_their_own_kernels_in_one_worker(scratch: Path, tmp_path: Path) -> None:
    files: list[str] = []
    for number, checkout in enumerate(("old", "new"), 1):
        (tmp_path / checkout / "suites" / "kernels").mkdir(parents=True)
        (tmp_path / checkout / "suites" / "kernels" / "sum.py").write_text(f"number = {number}", encoding="utf-8")
        statement = "from harness.suite import beside; rows = beside(__file__, 'kernels/sum.py').number"
        files.append(suite(tmp_path / checkout / "suites", statement))
    with Pool(specs(scratch, suites=tuple(files)), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert [pool.run(case("one", suite=file)).seconds["result"] for file in files] == [1, 2]


def test_a_suite_that_skips_at_import_is_an_error(scratch: Path, tmp_path: Path) -> None:
    file = tmp_path / "leaving.py"
    file.write_text("import os, pytest\npytest.importorskip('no_such_kernels')", encoding="utf-8")
    assert_refuses(scratch, str(file), SuiteError, "leaving.py:2 fails on import: Skipped: could not import")


def test_names_imported_from_a_package_are_imported_too(scratch: Path, tmp_path: Path) -> None:
    folder = Path(library(tmp_path, "raise ImportError('no such kernel here')"))
    (folder / "family").mkdir()
    (folder / "kernels_under_test.py").rename(folder / "family" / "norm.py")
    file = suite(tmp_path, "from family import norm")
    spec = specs(scratch, suites=(file,), library_paths=(str(folder),))
    with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool, pytest.raises(LibraryError, match="no such kernel"):
        pool.prepare(DEVICE)


def test_what_a_helper_of_a_suite_imports_is_imported_before_the_fork(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "import os; server = os.getpid()"),)
    file = suite(tmp_path, "rows = os.getpid() - imported().server")
    with Path(file).open("a", encoding="utf-8") as text:
        text.write("import os\n\ndef imported():\n    import kernels_under_test\n    return kernels_under_test\n")
    with Pool(specs(scratch, suites=(file,), library_paths=paths), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("one", suite=file)).seconds["result"] != 0


HIDDEN = """
class Hidden:
    def __call__(self):
        import family.kernels
        return family.kernels.number

hidden = Hidden()
"""


def test_an_import_at_a_suites_call_gets_stubs_for_frameworks_too(scratch: Path, tmp_path: Path) -> None:
    folder = Path(library(tmp_path, ""))
    (folder / "family").mkdir()
    (folder / "family" / "__init__.py").write_text("import transformers", encoding="utf-8")
    (folder / "family" / "kernels.py").write_text("from transformers import Model; number = 7", encoding="utf-8")
    file = suite(tmp_path, "rows = beside(__file__, 'hidden.py').hidden()")
    Path(file).write_text("from harness.suite import beside\n" + Path(file).read_text(encoding="utf-8"), "utf-8")
    (tmp_path / "hidden.py").write_text(HIDDEN, encoding="utf-8")
    spec = specs(scratch, suites=(file,), library_paths=(str(folder),))
    with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("one", suite=file)).seconds["result"] == 7


def test_an_import_that_a_suite_guards_may_fail(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "number = 7"),)
    file = suite(tmp_path, "rows = imported().number")
    with Path(file).open("a", encoding="utf-8") as text:
        text.write(
            "def imported():\n    try:\n        import no_such_kernels as found\n"
            "    except ImportError:\n        import kernels_under_test as found\n    return found\n"
        )
    with Pool(specs(scratch, suites=(file,), library_paths=paths), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("one", suite=file)).seconds["result"] == 7


def test_a_suite_whose_modules_a_release_lacks_does_not_stop_others(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, ""),)
    (tmp_path / "library" / "family").mkdir()
    newer = suite(tmp_path, "import family.ops.new", name="newer")
    older = suite(tmp_path, "import kernels_under_test", name="older")
    spec = specs(scratch, suites=(newer, older), library_paths=paths)
    with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("one", suite=older)).ending == Completed()


def test_a_suite_that_does_not_exist_is_named(scratch: Path) -> None:
    assert_refuses(scratch, "no/such/suite.py", SuiteError, "no suite file 'no/such/suite.py'")


def test_a_suite_that_fails_on_import_is_reported_with_its_error(scratch: Path, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0", encoding="utf-8")
    assert_refuses(scratch, str(file), SuiteError, "broken.py:1 fails on import: ZeroDivisionError: division by zero")


def test_the_error_for_a_missing_library_names_the_option_that_adds_it(scratch: Path, tmp_path: Path) -> None:
    file = suite(tmp_path, "pass", requires=("no-such-kernels",))
    remedy = "add --with and its folder or wheel"
    assert_refuses(scratch, file, LibraryError, rf"tests no-such-kernels, .* not installed: {remedy}")


def test_a_library_may_be_installed_under_an_older_name(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "number = 7"),)
    (tmp_path / "library" / "old_kernels-1.0.dist-info").mkdir()
    (tmp_path / "library" / "old_kernels-1.0.dist-info" / "METADATA").write_text("Name: old-kernels\nVersion: 1.0\n")
    file = suite(tmp_path, "import kernels_under_test", requires=(("new-kernels", "old-kernels"),))
    with Pool(specs(scratch, suites=(file,), library_paths=paths), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("one", suite=file)).ending == Completed()


def test_a_library_that_cannot_be_imported_is_reported_with_its_error(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "raise ValueError('autotune key names no argument')"),)
    file = suite(tmp_path, "import kernels_under_test")
    expected = r"(?s)cannot be imported: ValueError: autotune key names no argument\n.*kernels_under_test.py"
    assert_refuses(scratch, file, LibraryError, expected, library_paths=paths)


@pytest.mark.parametrize(
    ("package", "remedy"),
    [
        ("einops", "pip install 'kernel-harness\\[suites\\]'"),
        ("no_such_package", "install what has it, since --with takes a library without its dependencies"),
    ],
)
def test_a_package_that_the_library_lacks_is_named_in_one_line(
    scratch: Path, tmp_path: Path, package: str, remedy: str
) -> None:
    text = f"raise ModuleNotFoundError('No module named {package}', name='{package}.layers')"
    paths = (library(tmp_path, text),)
    file = suite(tmp_path, "import kernels_under_test")
    expected = f"cannot be imported: kernels_under_test imports {package}, which is not installed: {remedy}$"
    assert_refuses(scratch, file, LibraryError, expected, library_paths=paths)


def test_a_library_that_ends_the_process_is_reported_with_its_output(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "import os; os.write(2, b'no driver found'); os._exit(1)"),)
    file = suite(tmp_path, "import kernels_under_test")
    expected = r"(?s)a process died while it loaded .*suite.py and its libraries\n.*no driver found"
    assert_refuses(scratch, file, LibraryError, expected, library_paths=paths)


def test_a_library_that_exits_on_import_is_reported(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "raise SystemExit('no GPU, no library')"),)
    file = suite(tmp_path, "import kernels_under_test")
    assert_refuses(scratch, file, LibraryError, "SystemExit: no GPU, no library", library_paths=paths)


def test_a_library_that_hangs_on_import_is_given_up(scratch: Path, tmp_path: Path) -> None:
    paths = (library(tmp_path, "while True: pass"),)
    file = suite(tmp_path, "import kernels_under_test")
    expected = r"no worker within 1 s: loading .*suite.py and its libraries hangs"
    assert_refuses(scratch, file, LibraryError, expected, library_paths=paths, load_limit_s=1.0)


def test_one_op_that_cannot_be_imported_does_not_stop_its_suite(scratch: Path, tmp_path: Path) -> None:
    file = suite(tmp_path, "import no_such_kernels")
    text = Path(file).read_text(encoding="utf-8")
    second = DECLARES.replace("one", "two").replace("STATEMENT", "pass").replace("REQUIRES", "()")
    Path(file).write_text(text + second, encoding="utf-8")
    with Pool(specs(scratch, suites=(file,)), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("two", suite=file)).ending == Completed()


def test_an_engine_that_does_not_exist_is_reported(scratch: Path) -> None:
    spec = specs(scratch, engine="tests.workers.engines:Absent")
    with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool, pytest.raises(WorkerError, match="Absent"):
        pool.prepare(DEVICE)


def test_a_folder_of_bare_sources_may_be_any_distribution(scratch: Path, tmp_path: Path) -> None:
    file = suite(tmp_path, "import kernels_under_test", requires=("no-such-kernels",))
    spec = specs(scratch, suites=(file,), library_paths=(library(tmp_path, ""),))
    with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool:
        assert isinstance(pool.run(case("one", suite=file)).ending, Completed)


def assert_refuses(scratch: Path, file: str, error: type[HarnessError], message: str, **changes: object) -> None:
    """Preparing fails with this error, again and at once when a case is run, and none of its processes stays."""
    with Pool(specs(scratch, suites=(file,), **changes), processes=1, time_limit_s=DEADLINE_S) as pool:
        with pytest.raises(error, match=message):
            pool.prepare(DEVICE)
        assert survivors_besides_the_shared_zygote(os.environ[MARK]) == []
        with pytest.raises(error, match=message):
            pool.run(case("one", suite=file))
        assert isinstance(pool.submit(case("one", suite=file)).exception(), error)
        assert survivors_besides_the_shared_zygote(os.environ[MARK]) == []
