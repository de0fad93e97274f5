"""The choice of the configs that host code picks in a case, and of sizes for which it would pick them.

Each listed config is drawn once before one is drawn again.  A config comes with a place in a table.  The name of the
table gives sizes and options, and its key a size that is nearer to it than to other keys.  Tables are made for models
whose tensors are too large for a case.  A smaller size then has the same remainders, which decide the tails of tiles.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from harness.model.case import Case
from harness.model.host_configs import ConfigPlace, HostConfigs, ListedConfig, PickedConfig
from harness.model.input_spec import extent_of
from harness.model.op import Op
from harness.search.launch_feedback import LaunchFeedback

OWN_ONE_IN = 4
"""In one case of so many, host code picks by itself."""
PERIODS = (256, 128, 64, 32, 16, 8)
"""A smaller size has the remainder of the size that a table names, by the largest of these that is possible."""
MOST_ELEMENTS = 2**20
"""The largest input of a case with a picked config.  Tables are made for more: smaller ones would show few of them."""


@st.composite
def with_picked_configs(draw: st.DrawFn, op: Op, case: Case, feedback: LaunchFeedback) -> Case:
    """Draw configs for the functions of the op that pick one; the case stays as it is if there is no legal one."""
    for function, declared in op.host_configs.items():
        listed = declared.listed.get(case.device.slug, ())
        if not listed or not draw(st.integers(0, OWN_ONE_IN - 1)):
            continue
        new = [config for config in listed if (case.device.slug, config.label(function)) not in feedback.picked]
        chosen: ListedConfig = draw(st.sampled_from(new or listed))
        place: ConfigPlace = draw(st.sampled_from(chosen.places))
        picked = PickedConfig(function=function, config=chosen.config, key=place.key, table=place.table)
        changed = _placed(op, replace(case, picked=(*case.picked, picked)), place)
        if place.span:
            sizes = _sizes_near(op, changed, declared, place)
            size = sizes[draw(st.integers(0, len(sizes) - 1))]
            changed = replace(changed, dims={**changed.dims, declared.moved: size})
        if op.allows(changed):
            case = changed
    return case


def _placed(op: Op, case: Case, place: ConfigPlace) -> Case:
    """Return the case with the sizes and options that the table's name gives, or smaller sizes with like remainders."""
    dims, options = dict(case.dims), dict(case.options)
    for name, text in place.settings.items():
        if name in op.dims:
            dims[name] = _possible(op, name, dims, int(text))
        else:
            options[name] = next(choice for choice in op.options[name] if str(choice) == text)
    return replace(case, dims=dims, options=options)


def _possible(op: Op, name: str, dims: Mapping[str, int], wanted: int) -> int:
    """Return the wanted size, or a smaller one that is possible: one with the same remainder, if there is one."""
    dim = op.dims[name]
    if dim.choices:
        return wanted
    high = op.largest_size(name, dims, MOST_ELEMENTS)
    if wanted <= high:
        return max(wanted, dim.low)
    congruent = (wanted % period or period for period in PERIODS)
    return next((size for size in congruent if dim.low <= size <= high), high)


def _sizes_near(op: Op, case: Case, declared: HostConfigs, place: ConfigPlace) -> range:
    """Return the sizes of the moved dim for which the key is the nearest, or else the size that comes closest."""
    name = declared.moved
    dim = op.dims[name]
    sizes = range(dim.low, op.largest_size(name, case.dims, MOST_ELEMENTS) + 1)

    def compared(size: int) -> int:
        return extent_of(declared.nearest, {**case.dims, name: size})

    first = bisect_left(sizes, place.span.start, key=compared)
    last = bisect_left(sizes, place.span.stop, key=compared)
    if first < last:
        return sizes[first:last]
    closest = min(first, len(sizes) - 1)
    return sizes[closest : closest + 1]
