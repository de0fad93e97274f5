"""A compiler that dies or hangs costs its own build, and nothing else."""

import sys
import tempfile
from pathlib import Path

import pytest

from harness.compiling.build_cache import BuildCache
from harness.compiling.compilers import Compilers
from harness.model.device import Vendor
from harness.model.kernel_build import BuildFacts, BuildRequest, CompileTarget
from tests.engines.triton.ttir_texts import CRASHES_LLVM, REFUSED_BY_MLIR, REFUSED_BY_PTXAS, STORE

DYING = (sys.executable, str(Path(__file__).with_name("dying_compiler.py")))
FINE = BuildFacts(registers_per_thread=32)


GFX942 = CompileTarget(vendor=Vendor.AMD, arch="gfx942", warp_size=64)


def request(ttir: str, arch: int = 90, target: CompileTarget | None = None) -> BuildRequest:
    target = target or CompileTarget(arch=str(arch))
    return BuildRequest(key=f"{ttir}-{target}", target=target, options={"num_warps": 4}, ttir=ttir)


def compiled(cache: BuildCache, *texts: str, time_limit_s: float = 60.0) -> dict[str, BuildFacts]:
    with Compilers(cache, 1, time_limit_s=time_limit_s, command=DYING) as compilers:
        return {one.ttir: facts for one, facts in compilers.compile(map(request, texts))}


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path)


def test_a_compiler_that_aborts_leaves_its_message(cache: BuildCache) -> None:
    found = compiled(cache, "fine", "abort", "also fine")
    assert found == {
        "fine": FINE,
        "abort": BuildFacts(
            failure="the compiler's process died of SIGABRT (LLVM ERROR: unsupported constraint), 2 times of 2"
        ),
        "also fine": FINE,
    }
    assert cache.facts("abort-sm_90") == found["abort"]


@pytest.mark.parametrize("ending", ["hang", "stops"])
def test_a_compiler_that_hangs_is_killed_at_its_limit(cache: BuildCache, ending: str) -> None:
    found = compiled(cache, ending, "fine", time_limit_s=2.0)
    assert found == {ending: BuildFacts(failure="the compiler did not end within 2 s"), "fine": FINE}


def test_a_compiler_killed_from_outside_is_asked_again_next_time(cache: BuildCache) -> None:
    found = compiled(cache, "killed", "fine")
    assert found == {"killed": BuildFacts(unknown="the compiler's process died of SIGKILL"), "fine": FINE}
    assert cache.facts("killed-sm_90") is None


def test_compilers_that_were_killed_leave_no_temporary_files(
    cache: BuildCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Compilers(cache, 1) as compilers:
        ((_, facts),) = compilers.compile([request(cache.keep_ttir(REFUSED_BY_PTXAS), arch=90)])
    assert facts.failure
    assert list(temporary.iterdir()) == []
    assert list(cache.folder.glob("pool-*")) == []


def test_a_damaged_file_of_the_cache_counts_as_missing(cache: BuildCache) -> None:
    cache.keep_facts("damaged", FINE)
    (file,) = cache.folder.rglob("damaged.json")
    file.write_text('{"registers_per_', encoding="utf-8")
    assert cache.facts("damaged") is None


@pytest.mark.parametrize(
    ("text", "arch", "message"),
    [
        (REFUSED_BY_PTXAS, 90, "PTXASError: ptxas: "),
        (REFUSED_BY_MLIR, 80, "RuntimeError: Conversion from/to f8e4m3nv is only supported"),
        (CRASHES_LLVM, 90, "the compiler's process died of SIG"),
    ],
    ids=["by ptxas", "by a pass of MLIR", "by an abort of LLVM"],
)
def test_triton_itself_fails_with_its_own_message(cache: BuildCache, text: str, arch: int, message: str) -> None:
    fine, refused = (request(cache.keep_ttir(one), arch) for one in (STORE, text))
    with Compilers(cache, 1) as compilers:
        found = {one.key: facts for one, facts in compilers.compile((refused, fine))}
    assert found[refused.key].failure.startswith(message), found[refused.key]
    assert found[refused.key].failure_source is None
    assert found[fine.key].registers_per_thread > 0


def test_assembly_of_nvidia_is_refused_for_a_gpu_of_amd(cache: BuildCache) -> None:
    refused = request(cache.keep_ttir(REFUSED_BY_PTXAS), target=GFX942)
    with Compilers(cache, 1) as compilers:
        ((_, facts),) = compilers.compile((refused,))
    assert facts == BuildFacts(failure=facts.failure, cpu_seconds=facts.cpu_seconds)
    assert "allocate output register for constraint 'f'" in facts.failure
