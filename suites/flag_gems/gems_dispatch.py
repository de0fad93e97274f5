"""Calls of torch with FlagGems' operators in the place of torch's own, as `flag_gems.use_gems()` does on a GPU.

FlagGems registers its operators for CUDA tensors.  The virtual GPU has none, so a dispatch mode takes their place: each
operator of aten that FlagGems has is called there, in forward and in backward passes.
"""

from contextlib import ExitStack
from functools import cache

import torch
from torch.overrides import _get_current_function_mode_stack  # torch has no public name for it
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten


class Recorder:
    """Takes the place of the `torch.library.Library` into which FlagGems registers its operators."""

    def __init__(self):
        self.found = {}

    def impl(self, name, function, _dispatch_key):
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is not None:
            self.found[operator] = function


@cache
def registered():
    """Return FlagGems' functions by the operator of aten that they implement on this GPU."""
    import flag_gems

    recorder = Recorder()
    flag_gems.enable(lib=recorder)
    return recorder.found


class GemsMode(TorchDispatchMode):
    """Calls FlagGems' operators under the modes of functions that emulate the device: torch turns those off here."""

    def __init__(self, modes):
        super().__init__()
        self._modes = modes

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        own = registered().get(func)
        if own is None:
            return func(*args, **(kwargs or {}))
        with ExitStack() as active:
            for mode in self._modes:
                active.enter_context(mode)
            return own(*args, **(kwargs or {}))


class Dispatched(torch.autograd.Function):
    """Call a function of torch; its backward pass, which torch runs in another thread, enters the mode again."""

    @staticmethod
    def forward(ctx, run, *tensors):
        ctx.mode = GemsMode(_get_current_function_mode_stack())
        given = [one.detach().requires_grad_(one.requires_grad) for one in tensors]
        with torch.enable_grad(), ctx.mode:
            made = run(given)
        results = (made,) if isinstance(made, torch.Tensor) else tuple(one for one in made if torch.is_tensor(one))
        ctx.given, ctx.results = given, results
        returned = tuple(one.detach() for one in results)
        kept = [one for one, result in zip(returned, results, strict=True) if not result.requires_grad]
        ctx.mark_non_differentiable(*kept)
        return returned

    @staticmethod
    def backward(ctx, *gradients):
        wanted = [one for one in ctx.given if one.requires_grad]
        pairs = [(one, gradient) for one, gradient in zip(ctx.results, gradients, strict=True) if one.requires_grad]
        with ctx.mode:
            made = torch.autograd.grad(
                [one for one, _ in pairs], wanted, [gradient for _, gradient in pairs], allow_unused=True
            )
        found = iter(made)
        return None, *(next(found) if one.requires_grad else None for one in ctx.given)


def dispatched(function):
    """Return the function with FlagGems' operators in it."""

    def call(*args, **kwargs):
        leaves, form = tree_flatten((args, kwargs))
        places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        made = []

        def run(tensors):
            filled = list(leaves)
            for at, one in zip(places, tensors, strict=True):
                filled[at] = one
            given, named = tree_unflatten(filled, form)
            made.append(function(*given, **named))
            return made[0]

        results = Dispatched.apply(run, *(leaves[at] for at in places))
        return results[0] if isinstance(made[0], torch.Tensor) else results

    return call
