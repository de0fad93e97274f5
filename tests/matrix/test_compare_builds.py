"""`ci/compare_builds.py` packs the builds of one architecture and names each figure that differs."""

from dataclasses import replace
from pathlib import Path

import pytest

from ci.compare_builds import Compiled, PackedBuild, compiled, differences, pack, table, unpacked
from harness.compiling.build_cache import BuildCache
from harness.compiling.compilers import Compilers
from harness.documents.build_matrix import BuildMatrix, CompiledBuild, MatrixRow
from harness.documents.files import write
from harness.model.kernel_build import BuildRequest, CollectedBuild, CollectedKernel, CompileTarget
from tests.engines.triton.ttir_texts import REFUSED_BY_PTXAS, STORE

OPTIONS = {"num_warps": 4, "num_stages": 3}


def row(request: BuildRequest) -> MatrixRow:
    build = CollectedBuild(
        config="num_warps: 4",
        index=0,
        is_kept=True,
        constants={},
        target=request.target,
        options=OPTIONS,
        key=request.key,
        ttir=request.ttir,
    )
    kernel = CollectedKernel(
        kernel="store",
        source=None,
        specialisation="",
        signature={},
        constants={},
        is_tuned=False,
        op="",
        case="",
        builds=(build,),
    )
    return MatrixRow(device="h200", kernel=kernel)


@pytest.fixture
def packed(tmp_path: Path) -> tuple[PackedBuild, ...]:
    """A kernel and a refused one for sm_90, packed from a matrix that also has sm_80."""
    cache = BuildCache(tmp_path / "cache")
    requests = [
        BuildRequest(
            key=f"{text[:40]}{arch}", target=CompileTarget(arch=arch), options=OPTIONS, ttir=cache.keep_ttir(text)
        )
        for text, arch in ((STORE, "90"), (REFUSED_BY_PTXAS, "90"), (STORE, "80"))
    ]
    requests = [replace(one, key=f"key{number}") for number, one in enumerate(requests)]
    with Compilers(cache, 1) as compilers:
        facts = {request.key: facts for request, facts in compilers.compile(requests)}
    matrix = BuildMatrix(
        libraries=(),
        versions={},
        suites=(),
        devices=(),
        rows=tuple(map(row, requests)),
        builds=tuple(CompiledBuild(request=one, facts=facts[one.key]) for one in requests),
    )
    write(matrix, tmp_path / "matrix.json")
    assert pack(tmp_path / "matrix.json", tmp_path / "builds.gz", 90, cache.folder) == 2
    return tuple(unpacked(tmp_path / "builds.gz"))


def loaded(build: PackedBuild, **others: int) -> dict[str, int]:
    """Return what a driver would report of the matrix's own code."""
    names = ("registers_per_thread", "local_bytes_per_thread")
    return {**{name: build.facts[name] for name in names}, "static_shared_bytes": 0, **others}


def sound(packed: tuple[PackedBuild, ...]) -> PackedBuild:
    return next(build for build in packed if not build.facts["failure"])


def test_builds_that_are_compiled_again_have_equal_figures(packed: tuple[PackedBuild, ...]) -> None:
    for build in packed:
        made = compiled(build)
        assert bool(made.failure) == bool(build.facts["failure"])
        assert differences(build, made, lambda _code, _name, build=build: loaded(build)) == []


def test_a_figure_that_the_driver_reports_otherwise_is_named(packed: tuple[PackedBuild, ...]) -> None:
    build = sound(packed)
    (found,) = differences(build, compiled(build), lambda _code, _name: loaded(build, local_bytes_per_thread=64))
    assert (found.figure, found.matrix, found.here) == ("local_bytes_per_thread", 0, 64)
    assert [line for line in table([build], [found]) if "store (num_warps: 4)" in line] == [
        "store (num_warps: 4): local_bytes_per_thread is 64, in the matrix 0"
    ]


def test_a_build_that_compiles_on_one_side_only_differs(packed: tuple[PackedBuild, ...]) -> None:
    build = sound(packed)
    found = differences(build, Compiled(figures={}, failure="PTXASError: no"), lambda _code, _name: loaded(build))
    assert [each.figure for each in found] == ["failure"]


def test_code_that_the_driver_refuses_differs(packed: tuple[PackedBuild, ...]) -> None:
    def refuse(_code: bytes, _name: str) -> dict[str, int]:
        raise OSError("cuModuleLoadData returns 209")

    build = sound(packed)
    found = differences(build, compiled(build), refuse)
    assert [(each.figure, each.here) for each in found] == [("loading", "cuModuleLoadData returns 209")]
