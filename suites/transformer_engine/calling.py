"""Autograd functions around TransformerEngine's launchers of Triton kernels.

The package's own autograd functions need its compiled extension.  These call the same launchers in the same order.
Releases differ in parameters: one that a release lacks must be None here.
"""

import inspect

import torch


def call(launch, **given):
    """Call a launcher with the parameters that this release has.

    Raises:
        NotImplementedError: this release lacks a parameter whose value is not None.
    """
    known = inspect.signature(launch).parameters
    for name, value in given.items():
        if name not in known and value is not None:
            raise NotImplementedError(f"{launch.__name__} of this release has no {name}")
    return launch(**{name: value for name, value in given.items() if name in known})


class Permute(torch.autograd.Function):
    """Copy each token to a row for each expert that it is routed to, with its probability for that expert."""

    @staticmethod
    def forward(ctx, x, rows, probs, count):
        from transformer_engine.pytorch.triton.permutation import permute_with_mask_map

        tokens, hidden = x.shape
        experts = rows.shape[1] // 2
        permuted, _, permuted_probs = call(
            permute_with_mask_map,
            inp=x,
            row_id_map=rows,
            probs=probs,
            scale=None,
            pad_offsets=None,
            num_tokens=tokens,
            num_experts=experts,
            num_out_tokens=count,
            hidden_size=hidden,
            scale_hidden_dim=None,
        )
        ctx.save_for_backward(rows)
        ctx.sizes = tokens, experts, hidden
        ctx.has_probs = probs is not None
        return permuted, permuted_probs

    @staticmethod
    def backward(ctx, grad, grad_probs):
        from transformer_engine.pytorch.triton.permutation import unpermute_with_mask_map

        (rows,) = ctx.saved_tensors
        tokens, experts, hidden = ctx.sizes
        grad_x, grad_all_probs = call(
            unpermute_with_mask_map,
            inp=grad.contiguous(),
            row_id_map=rows,
            merging_probs=None,
            permuted_probs=grad_probs if ctx.has_probs else None,
            pad_offsets=None,
            num_tokens=tokens,
            num_experts=experts,
            hidden_size=hidden,
        )
        return grad_x, None, grad_all_probs, None


class Unpermute(torch.autograd.Function):
    """Add up the rows of each token, weighted by its probabilities if there are any."""

    @staticmethod
    def forward(ctx, permuted, rows, probs):
        from transformer_engine.pytorch.triton.permutation import unpermute_with_mask_map

        tokens, experts, hidden = rows.shape[0], rows.shape[1] // 2, permuted.shape[1]
        merged, _ = call(
            unpermute_with_mask_map,
            inp=permuted,
            row_id_map=rows,
            merging_probs=probs,
            permuted_probs=None,
            pad_offsets=None,
            num_tokens=tokens,
            num_experts=experts,
            hidden_size=hidden,
        )
        ctx.save_for_backward(permuted, rows, probs)
        return merged

    @staticmethod
    def backward(ctx, grad):
        from transformer_engine.pytorch.triton.permutation import (
            permute_with_mask_map,
            unpermute_with_mask_map_bwd_with_merging_probs,
        )

        permuted, rows, probs = ctx.saved_tensors
        sizes = {
            "num_tokens": rows.shape[0],
            "num_experts": rows.shape[1] // 2,
            "num_out_tokens": permuted.shape[0],
            "hidden_size": permuted.shape[1],
        }
        if probs is None:
            grad_rows, _, _ = call(
                permute_with_mask_map,
                inp=grad.contiguous(),
                row_id_map=rows,
                probs=None,
                scale=None,
                pad_offsets=None,
                scale_hidden_dim=None,
                **sizes,
            )
            return grad_rows, None, None
        grad_rows, grad_probs = call(
            unpermute_with_mask_map_bwd_with_merging_probs,
            fwd_output_grad=grad.contiguous(),
            row_id_map=rows,
            fwd_input=permuted,
            merging_probs=probs,
            pad_offsets=None,
            **sizes,
        )
        return grad_rows, None, grad_probs


class SortChunks(torch.autograd.Function):
    """Put chunks of rows, and the probabilities of the rows, into another order."""

    @staticmethod
    def forward(ctx, x, places, probs):
        ctx.save_for_backward(places)
        ctx.has_probs = probs is not None
        return _sorted(x, places, probs, is_forward=True)

    @staticmethod
    def backward(ctx, grad, grad_probs):
        (places,) = ctx.saved_tensors
        given = grad_probs if ctx.has_probs else None
        grad_x, grad_of_probs = _sorted(grad.contiguous(), places, given, is_forward=False)
        return grad_x, None, grad_of_probs


def _sorted(x, places, probs, *, is_forward):
    from transformer_engine.pytorch.triton.permutation import sort_chunks_by_map

    tokens, hidden = x.shape
    return sort_chunks_by_map(
        inp=x, row_id_map=places, probs=probs, num_tokens=tokens, hidden_size=hidden, is_forward=is_forward
    )


def cross_entropy(logits, target, label_smoothing, reduces, ignored):
    """Return the loss of each token, or their mean over the tokens that count."""
    from transformer_engine.pytorch.triton.cross_entropy import cross_entropy_forward

    keeps_input = "overwrite_input" in inspect.signature(cross_entropy_forward).parameters
    function = CrossEntropy if keeps_input else CrossEntropyInPlace
    return function.apply(logits, target, (label_smoothing, reduces, ignored))


class CrossEntropyInPlace(torch.autograd.Function):
    """The loss, as releases before 2.19 launch it: the forward pass computes the gradient, in place until 2.17."""

    @staticmethod
    def forward(ctx, logits, target, settings):
        from transformer_engine.pytorch.triton.cross_entropy import cross_entropy_forward

        label_smoothing, reduces, ignored = settings
        loss, gradient = cross_entropy_forward(logits, target, label_smoothing, reduces, None, ignored)
        ctx.save_for_backward(gradient.detach())
        return loss

    @staticmethod
    def backward(ctx, grad):
        from transformer_engine.pytorch.triton.cross_entropy import cross_entropy_backward

        (gradient,) = ctx.saved_tensors
        return cross_entropy_backward(gradient, grad), None, None


class CrossEntropy(torch.autograd.Function):
    """The loss, as releases since 2.19 launch it: the backward pass computes the gradient."""

    @staticmethod
    def forward(ctx, logits, target, settings):
        from transformer_engine.pytorch.triton import cross_entropy

        label_smoothing, reduces, ignored = settings
        loss, saved, stats, target, count, rank, ranks = cross_entropy.cross_entropy_forward(
            logits, target, label_smoothing, reduces, None, ignored, overwrite_input=False
        )
        ctx.save_for_backward(saved, stats, target, count)
        ctx.rest = label_smoothing, reduces, rank, ranks, ignored
        return loss

    @staticmethod
    def backward(ctx, grad):
        from transformer_engine.pytorch.triton.cross_entropy import cross_entropy_backward

        saved, stats, target, count = ctx.saved_tensors
        return cross_entropy_backward(saved, stats, target, count, grad, *ctx.rest), None, None
