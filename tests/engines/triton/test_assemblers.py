"""The assemblers that Triton ships are found by version, and kernels can be assembled with each of them."""

from pathlib import Path

import pytest
from triton.backends.nvidia.compiler import get_ptxas

from harness.engines.cuda.emulation import compiler_environment
from harness.engines.triton.assemblers import find_assemblers
from harness.engines.triton.triton_seam import FULL_CACHE_SUFFIX
from harness.errors import WorkerError
from harness.model.engine_traits import COMPILE_AHEAD, VIRTUAL
from harness.model.kernel_assembly import KernelAssembly
from harness.model.paired_run import rebuilt
from harness.model.run import Completed
from harness.workers.pool import Pool
from tests.compiling.test_compile_ahead_engine import BLACKWELL, LIMIT_S, case_of, spec_of
from tests.engines.cuda.samples import H200


def test_the_other_assembler_has_another_version() -> None:
    found = find_assemblers((8, 0))
    assert found.usual is not None
    if found.other is None:
        pytest.skip("this Triton ships one assembler")
    assert found.usual.version != found.other.version
    assert find_assemblers((10, 0)).usual == found.other


@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0), (12, 0)])
def test_the_usual_assembler_is_the_one_that_triton_takes(capability: tuple[int, int]) -> None:
    taken = get_ptxas(10 * capability[0] + capability[1])
    usual = find_assemblers(capability).usual
    assert usual is not None
    assert (usual.path, usual.version.startswith(taken.version)) == (str(Path(taken.path).resolve()), True)


def builds(scratch: Path, *assemblies: KernelAssembly) -> dict[str, dict[str, bytes]]:
    """Return the builds of a case for each of these assemblies, by folder of the cache and kernel."""
    with Pool(spec_of(scratch, COMPILE_AHEAD.factory, compiler_environment(H200)), 1, LIMIT_S) as pool:
        for assembly in assemblies:
            run = pool.run_alone(rebuilt(case_of("good", BLACKWELL), assembly))
            assert run.ending == Completed()
    cache = scratch / f"triton{FULL_CACHE_SUFFIX}"
    found: dict[str, dict[str, bytes]] = {}
    for cubin in cache.rglob("*.cubin"):
        found.setdefault(str(cubin.relative_to(cache).parent.parent), {})[cubin.stem] = cubin.read_bytes()
    return found


def test_each_assembly_has_a_cache_and_builds_of_its_own(tmp_path: Path) -> None:
    other = find_assemblers((9, 0)).other
    assemblies = [KernelAssembly(kernels=("none",)), KernelAssembly(optimises=False)]
    assemblies += [KernelAssembly(ptxas=other.path)] if other else []
    found = builds(tmp_path, *assemblies)
    assert set(found) == {".", "unoptimised", *([Path(other.path).name] if other else [])}
    assert len({kernels["add_one"] for kernels in found.values()}) == len(assemblies)


def test_only_the_named_kernels_are_assembled_otherwise(tmp_path: Path) -> None:
    found = builds(tmp_path, KernelAssembly(optimises=False, kernels=("add_one",)))
    assert set(found) == {"unoptimised"}


def test_the_virtual_gpu_refuses_another_assembly(tmp_path: Path) -> None:
    with (
        Pool(spec_of(tmp_path, VIRTUAL.factory), 1, LIMIT_S) as pool,
        pytest.raises(WorkerError, match="cannot assemble kernels in another way"),
    ):
        pool.run_alone(rebuilt(case_of("good", BLACKWELL), KernelAssembly(optimises=False)))
