"""`harness bisect` on planted bugs: commits, releases of a library, releases of Triton."""

import json
import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from harness import catalogue
from harness.cli import main
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.findings.triton_process import supported
from harness.libraries import PYTHON_TAG
from harness.model.case import Case, DType
from harness.wire import to_json
from tests.findings.bisection.test_worktrees import Git

KERNEL = Path(__file__).parents[2] / "suites" / "planted" / "kernels" / "out_of_bounds_store.py"
SUITE = """
from harness.suite import DType, op, tensor, tokens

@op(requires=("doubling",), dims={"T": tokens(256)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def doubled(x):
    from doubling import doubled
    return doubled(x)

@doubled.reference
def reference(x):
    return x + x
"""
LIBRARY = "from doubling.kernel import double\n\n\ndef doubled(x):\n    return double(x, masked={masked})\n"


def document(op: str, dims: dict[str, int], **signature: str) -> dict[str, Any]:
    case = Case(op=op, dims=dims, dtype=DType.FP32, device=catalogue.find("rtx-pro-6000"))
    document = {"kind": Kind.REGRESSION, "schema_version": SCHEMA_VERSION, "severity": "error", "op": "", **signature}
    return {**document, "case": json.loads(to_json(case))}


BUG = document("doubling_suite.py:doubled", {"T": 1}, oracle="bounds", kernel="double_kernel", place="kernel.py:1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite, a finding made with release 1.2 of the library, and an empty folder as pip's only index."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doubling_suite.py").write_text(SUITE, encoding="utf-8")
    (tmp_path / "bug.json").write_text(json.dumps({**BUG, "libraries": ["doubling==1.2"]}), encoding="utf-8")
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path


def publish(folder: Path, name: str, *versions: str) -> None:
    """Offer releases as empty files: pip does not open those that the cache has."""
    for version in versions:
        (folder / "index" / f"{name}-{version}-py3-none-any.whl").touch()


def install(folder: Path, name: str, version: str) -> Path:
    """Make a release in the cache, and return its folder."""
    place = folder / "cache" / "libraries" / f"{name}-{version}-{PYTHON_TAG}"
    info = place / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return place


@pytest.mark.nightly
@pytest.mark.slow
def test_broken_commits_are_skipped_and_a_flaky_bug_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counter = folder / "count"
    flaky = (
        "from pathlib import Path\n\nfrom doubling.kernel import double\n\n\n"
        "def doubled(x):\n"
        f"    counter = Path({str(counter)!r})\n"
        "    count = len(counter.read_text()) if counter.exists() else 0\n"
        "    counter.write_text('.' * (count + 1))\n"
        "    return double(x, masked=count % 2 == 0)\n"
    )
    git = Git(folder / "library")
    package = folder / "library" / "doubling"
    package.mkdir()
    shutil.copy(KERNEL, package / "kernel.py")
    git.commit("begin", **{"doubling/__init__": LIBRARY.format(masked=True)})
    git.commit("break the import", **{"doubling/__init__": "raise ImportError('half done')\n"})
    git.commit("store the last tile whole", **{"doubling/__init__": flaky})
    git.commit("mend", **{"doubling/__init__": LIBRARY.format(masked=True)})
    begin, broken, whole, mend = git("log", "--reverse", "--format=%h", "--abbrev=12").split()

    status = main(
        ["bisect", "bug.json", "--repo", "library", "--good", begin, "--bad", "main~1", "--fixed", "--runs", "2"]
    )
    printed = capsys.readouterr()
    assert status == 0, printed.err
    *rows, _, conclusion = printed.out.splitlines()
    assert [row.split()[0] for row in rows] == ["library", begin, broken, whole, mend]
    assert rows[1] == f"{begin}  begin                      good    does not show it (in 2 runs)"
    assert rows[2].startswith(f"{broken}  break the import           skip")
    assert "half done" in rows[2]
    assert rows[3].endswith("bad     bounds: double_kernel kernel.py:17 (in run 2)")
    assert conclusion == (
        f"bounds: double_kernel kernel.py:1 came between library {begin}, which is good, and {whole}, which is bad, "
        f"with {broken} skipped and is fixed in library {mend} ({whole} is bad)."
    )
    assert git("worktree", "list").count("\n") == 1


@pytest.mark.nightly
@pytest.mark.slow
def test_another_triton_has_a_process_tree_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each release is the installed Triton with another version number.  The library reads that number."""
    real = distribution("triton")
    versions = sorted(f"3.{minor}.0" for minor in range(6, 9) if f"3.{minor}.0" in supported())
    publish(folder, "triton", "3.5.0", *versions)
    for version in versions:
        place = install(folder, "triton", version)
        (place / "triton").symlink_to(Path(str(real.locate_file("triton"))))
        (place / f"triton-{version}.dist-info" / "entry_points.txt").write_text(
            real.read_text("entry_points.txt") or ""
        )
    place = install(folder, "doubling", "1.2") / "doubling"
    place.mkdir()
    shutil.copy(KERNEL, place / "kernel.py")
    (place / "__init__.py").write_text(
        "from importlib.metadata import version\n\n" + LIBRARY.format(masked="version('triton') < '3.8'")
    )

    stored = Path(".harness", "findings", "1b2c3d4e", "finding.json")
    stored.parent.mkdir(parents=True)
    shutil.copy("bug.json", stored)
    ends = ("--bad", "3.8", "--good", "3.5.0")
    status = main(["bisect", str(stored), "--package", "triton", *ends, "--json", "b.json"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert printed.out.splitlines()[-1] == ("bounds: double_kernel kernel.py:1 came with triton 3.8.0 (3.7.0 is good).")
    kept = json.loads((folder / "b.json").read_text(encoding="utf-8"))
    assert {one["name"]: one["result"] for one in kept["checked"]} == {"3.5.0": "skip", "3.7.0": "good", "3.8.0": "bad"}
    assert kept["checked"][0]["explanation"].startswith("the harness works with triton")
    beside = stored.with_name("bisection-triton.json")
    assert json.loads(beside.read_text(encoding="utf-8")) == kept
    assert f"kept in {beside}" in printed.out


@pytest.mark.slow
def test_the_release_that_introduced_a_real_bug_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suites").symlink_to(KERNEL.parents[2])
    bug = document(
        "suites/fla/norm.py:layer_norm",
        {"T": 2, "D": 1},
        oracle="write-overlap",
        kernel="layer_norm_bwd_kernel",
        place="layernorm.py:444",
    )
    (tmp_path / "bug.json").write_text(json.dumps({**bug, "libraries": ["fla-core==0.5.2"]}), encoding="utf-8")
    status = main(["bisect", "bug.json", "--bad", "0.5.0", "--good", "0.4.2"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert printed.out.splitlines()[-1] == (
        "write-overlap: layer_norm_bwd_kernel layernorm.py:444 came with fla-core 0.5.0 (0.4.2 is good)."
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--good", "1.2"), "doubling 1.2 cannot be both good and bad"),
        (("--good", "1.1.5"), "unknown release of doubling '1.1.5': did you mean 1.1"),
        (("--good", "main"), "--good 'main' is no version such as 0.5.2"),
        (("--good", "1.3", "--fixed"), "--good is newer than --bad, and so says what --fixed says: give one of them"),
        (("--fixed", "1.1"), "--fixed needs one that is newer than 1.2, which should be bad; 1.1 is not"),
        (("--package", "dubling"), "unknown package 'dubling': did you mean doubling"),
        (("--package", "triton", "--repo", "."), "--repo cannot be Triton's: only its releases can be bisected"),
        (("--repo", "."), "not a git repository"),
        (("--with", "doubling==1.1"), "--with names doubling, which is bisected"),
        (("--json", "no/such/report.json"), "--json no/such/report.json: there is no folder no/such"),
    ],
)
def test_contradictory_options_are_a_usage_error_of_one_line(
    folder: Path, arguments: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(folder, "doubling", "1.1", "1.2", "1.3")
    install(folder, "doubling", "1.1")
    assert main(["bisect", "bug.json", *arguments]) == 2
    printed = capsys.readouterr().err
    assert (line in printed, printed.count("\n")) == (True, 1)


def test_an_unrecorded_package_or_release_must_be_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bug.json").write_text(json.dumps({**BUG, "libraries": ["doubling"]}), encoding="utf-8")
    publish(folder, "doubling", "1.1", "1.2")
    assert main(["bisect", "bug.json"]) == 2
    assert "--bad is needed: the finding does not say which release of doubling" in capsys.readouterr().err
    (folder / "bug.json").write_text(json.dumps(BUG), encoding="utf-8")
    assert main(["bisect", "bug.json"]) == 2
    assert "--package is needed" in capsys.readouterr().err
