"""The first cases of a campaign, which a plan names: kept ones, worth trying before cases are drawn.

They were drawn for a suite and a library of another day.  One that the op no longer has is dropped, with the reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.search.campaign_plan import CampaignPlan
from harness.search.campaign_statistics import Trial
from harness.search.sort_key import layouts_of

GRAD = "grad"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCases:
    """The first cases of a plan that its ops have."""

    trials: tuple[Trial, ...]
    """Not yet numbered, device by device in the plan's order: each device needs processes of its own."""
    dropped: tuple[str, ...]
    """The other cases of its ops and devices, each with the reason."""


def first_cases(plan: CampaignPlan) -> FirstCases:
    """Return the first cases of the plan's ops and devices, each once, as today's devices have them."""
    trials: dict[str, Trial] = {}
    dropped: dict[str, None] = {}
    ops = {op.id: op for op in plan.ops}
    for device in plan.devices:
        for kept in plan.first_cases:
            if kept.op not in ops or kept.device.slug != device.slug:
                continue
            op, case = ops[kept.op], replace(kept, device=device.with_sm_count(kept.device.sm_count))
            if misfit := next(_misfits(op, case, device, plan), ""):
                dropped[f"{kept}: {misfit}"] = None
            else:
                trials.setdefault(
                    case.digest, Trial(number=0, op=op, case=case, batch=None, home_sm_count=device.sm_count)
                )
    return FirstCases(trials=tuple(trials.values()), dropped=tuple(dropped))


def _misfits(op: Op, case: Case, device: DeviceProfile, plan: CampaignPlan) -> Iterator[str]:
    """Yield the reasons why the op has no such case; later ones count only if there is no earlier one."""
    yield from (f"the op has no dim {name}" for name in case.dims.keys() - op.dims.keys())
    yield from (f"the case lacks the dim {name}" for name in op.dims.keys() - case.dims.keys())
    yield from _unknown_settings(op, case)
    if plan.fixed_sm_count and case.device.sm_count != device.sm_count:
        yield f"the search has {device.sm_count} SMs"
    if not op.allows(case):
        yield "the op allows no such dims and settings"


def _unknown_settings(op: Op, case: Case) -> Iterator[str]:
    """Yield what the case sets that the op does not declare."""
    names = (
        ("type", [case.dtype], op.dtypes),
        ("option", case.options, op.options),
        ("optional input", case.absent, op.optional),
        ("gradient of", case.frozen, op.differentiable(case)),
        ("variable", dict(case.environment), op.environment),
        ("list of configs of", [picked.function for picked in case.picked], op.host_configs),
        ("input", case.layouts, {*op.inputs, GRAD}),
    )
    for what, used, declared in names:
        yield from (f"the op has no {what} {name}" for name in used if name not in declared)
    options, layouts = case.options.items(), case.layouts.items()
    yield from (f"the op has no {name}={setting}" for name, setting in options if setting not in op.options[name])
    yield from (f"the op has no {layout} {name}" for name, layout in layouts if layout not in layouts_of(op, name))
