"""The cases that are run to find the kernels of an op.

The tile constants of a kernel follow from its sizes, so the first cases have sizes that users have: 128 features, bf16.
Others reach the kernels behind optional inputs and options, and the last ones are drawn as for a search.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.model.case import Case, DType, Scalar, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Dim, Op
from harness.search.campaign_plan import derived_seed
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch, scouts

FEATURES = (128, 64)
"""Sizes to try in turn for dims that reach so far."""
FEW = 16
"""A dim that reaches no further counts heads or sequences."""
DRAWN_PER_CASE = 4


def cases_of(op: Op, device: DeviceProfile, count: int, seed: int) -> tuple[Case, ...]:
    """Return up to `count` legal cases of usual scale, none of them twice."""
    cases: dict[str, Case] = {}
    for case in _candidates(op, device, count, seed):
        cases.setdefault(case.digest, case)
        if len(cases) == count:
            break
    return tuple(cases.values())


def _candidates(op: Op, device: DeviceProfile, count: int, seed: int) -> Iterator[Case]:
    yield from _usual(op, device)
    yield from scouts(op, device)
    drawn = Batch(
        op=op,
        device=device,
        feedback=LaunchFeedback(),
        seed=derived_seed(seed, op.portable_id),
        size=DRAWN_PER_CASE * count,
    ).draw()
    yield from (case for case in drawn if case.scale is Scale.USUAL)


def _usual(op: Op, device: DeviceProfile) -> Iterator[Case]:
    """Yield cases of usual sizes: with all optional inputs or none, with other options, and in each environment."""
    dtype = DType.BF16 if DType.BF16 in op.dtypes else op.dtypes[0]
    for features in FEATURES:
        dims = {name: _usual_size(dim, features) for name, dim in op.dims.items()}
        full = Case(op=op.id, dims=dims, dtype=dtype, device=device, options=op.simplest_options)
        last = {name: settings[-1] for name, settings in op.options.items()}
        legal = [case for case in _variants(full, op, last) if op.allows(case)]
        yield from legal
        if legal:
            return


def _variants(full: Case, op: Op, last: Mapping[str, Scalar]) -> Iterator[Case]:
    yield full
    yield replace(full, absent=op.optional)
    yield replace(full, options=last)
    yield replace(full, options=last, absent=op.optional)
    yield from (replace(full, environment=environment) for environment in op.environments)


def _usual_size(dim: Dim, features: int) -> int:
    if dim.choices:
        return dim.choices[min(1, len(dim.choices) - 1)]
    wanted = 2 if dim.high <= FEW else features
    return min(max(wanted, dim.low), dim.high)
