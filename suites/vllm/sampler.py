"""What vLLM's sampler does to logits, in place: biases, bans, penalties, temperatures, and log probabilities.

A row of logits belongs to a request, whose settings are in tables of all requests.
"""

from harness.suite import Dim, Draw, DType, beside, groups, integers, op, tensor, width

LIBRARY = {"requires": ("sources:vllm",), "stubs": {"vllm": "vllm_stubs.py"}, "dtypes": (DType.FP32, DType.BF16)}
ROWS = {"T": Dim(low=1, high=16), "R": groups(1, 2, 3), "V": width(20_000)}
OF_REQUEST = {"logits": tensor("T", "V", grad=False), "request": integers("T", high="R", dtype="int32")}


@op(
    **LIBRARY,
    dims={**ROWS, "K": groups(1, 2, 3, 8, 20)},
    inputs={
        **OF_REQUEST,
        "keys": tensor("R", "V", grad=False, dtype=DType.FP32),
        "allowed": integers("R", high="K+1", dtype="int32"),
        "biased": integers("R", high="K+1", dtype="int32"),
        "stops": integers("R", high="K+1", dtype="int32"),
        "bias": tensor("R", "K", grad=False, dtype=DType.FP32),
        "position": integers("T", high=8, dtype="int64"),
        "least": integers("R", high=8, dtype="int32"),
    },
    where=lambda at: at["K"] <= at["V"],
)
def logit_bias(logits, request, keys, allowed, biased, stops, bias, position, least, K):
    from vllm.v1.worker.gpu.sample.logit_bias import apply_logit_bias

    ids = chosen_ids(keys, K)
    logits = logits.clone()
    apply_logit_bias(logits, request, position, allowed, ids[0], biased, ids[1], bias, least, stops, ids[2])
    return logits


@logit_bias.reference
def logit_bias_reference(logits, request, keys, allowed, biased, stops, bias, position, least, K):
    ids = chosen_ids(keys, K)

    def changed(row, of, at):
        if allowed[of]:
            kept = ids[0][of, : allowed[of]].long()
            row = row.new_full(row.shape, float("-inf")).index_copy(0, kept, row[kept])
        row = row.index_add(0, ids[1][of, : biased[of]].long(), bias[of, : biased[of]].to(row.dtype))
        return row.index_fill(0, ids[2][of, : stops[of]].long(), float("-inf")) if at + 1 < least[of] else row

    return stacked([changed(*one) for one in zip(logits, request.tolist(), position.tolist(), strict=True)])


def chosen_ids(keys, count):
    """Return three tables of tokens of each request; the tokens of a row differ, as those of a request do."""
    order = keys.argsort(-1).int()
    turns = (order, order.flip(-1), order.roll(order.shape[1] // 2, -1))
    return [one[:, :count].contiguous() for one in turns]


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={**OF_REQUEST, "min_p": tensor("R", grad=False, dtype=DType.FP32, draw=Draw.UNIT)},
    options={"is_off": (False, True)},
)
def min_p(logits, request, min_p, is_off):
    from vllm.v1.worker.gpu.sample.min_p import apply_min_p

    logits = logits.clone()
    apply_min_p(logits, request, min_p * (not is_off))
    return logits


@min_p.reference
def min_p_reference(logits, request, min_p, is_off):
    if is_off:
        return logits
    least = logits.amax(-1) + min_p[request.long()].log()
    return logits.masked_fill(logits < least[:, None], float("-inf"))


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={**OF_REQUEST, "temperature": tensor("R", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE)},
    options={"is_off": (False, True)},
)
def temperature(logits, request, temperature, is_off):
    from vllm.v1.worker.gpu.sample.gumbel import apply_temperature

    logits = logits.clone()
    apply_temperature(logits, request, temperature + 0.125 if not is_off else temperature * 0)
    return logits


@temperature.reference
def temperature_reference(logits, request, temperature, is_off):
    return logits if is_off else logits / (temperature + 0.125)[request.long(), None]


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={
        **OF_REQUEST,
        "tokens": integers("T", high="V", dtype="int32"),
        "repetition": tensor("R", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
        "frequency": tensor("R", grad=False, dtype=DType.FP32),
        "presence": tensor("R", grad=False, dtype=DType.FP32),
        "in_prompt": integers("R", "V", high=2, dtype="int32"),
        "counts": integers("R", "V", high=3, dtype="int32"),
    },
    options={"drafts": (False, True)},
)
def penalties(logits, request, tokens, repetition, frequency, presence, in_prompt, counts, drafts):
    from vllm.v1.worker.gpu.sample.penalties import apply_penalties

    logits = logits.clone()
    request, position = drafted(request, drafts)
    given = (repetition + 0.5, frequency, presence, bits().packed_bits(in_prompt), counts)
    apply_penalties(logits, request, tokens, position, *given)
    return logits


@penalties.reference
def penalties_reference(logits, request, tokens, repetition, frequency, presence, in_prompt, counts, drafts):
    import torch

    request, position = drafted(request, drafts)
    of = request.long()
    seen = counts[of].clone()
    for row, drafted_before in enumerate(position.tolist()):
        for token in tokens[row - drafted_before + 1 : row + 1].tolist():
            seen[row, token] += 1
    scale = torch.where((in_prompt[of] > 0) | (seen > 0), (repetition + 0.5)[of, None], 1.0)
    scaled = torch.where(logits > 0, logits / scale, logits * scale)
    return scaled - frequency[of, None] * seen - presence[of, None] * (seen > 0)


def drafted(request, drafts):
    """Return requests and positions of the rows; if rows are drafts, those of one request in their order."""
    position = request * 0
    return (position, position.new_tensor(range(len(position)))) if drafts else (request, position)


@op(
    **LIBRARY,
    dims={**ROWS, "K": groups(1, 2, 3, 8, 20)},
    inputs={"logits": tensor("T", "V", grad=False), "ids": integers("T", "K", high="V")},
    apart=("T",),
)
def token_logprobs(logits, ids):
    from vllm.v1.worker.gpu.sample.logprob import compute_token_logprobs

    return compute_token_logprobs(logits, ids)


@token_logprobs.reference
def token_logprobs_reference(logits, ids):
    top = logits.amax(-1, keepdim=True)
    return logits.gather(1, ids) - top - (logits - top).exp().sum(-1, keepdim=True).log()


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={"logits": tensor("T", "V", grad=False), "ids": integers("T", high="V")},
)
def token_ranks(logits, ids):
    from vllm.v1.worker.gpu.sample.logprob import _ranks_kernel

    ranks = ids.new_empty(len(ids))
    _ranks_kernel[(len(ids),)](ranks, logits, logits.stride(0), ids, logits.shape[1], BLOCK_SIZE=8192)
    return ranks


@token_ranks.reference
def token_ranks_reference(logits, ids):
    return (logits >= logits.gather(1, ids[:, None])).sum(-1)


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={"logits": tensor("T", "V", grad=False), "broken": integers("T", "V", high=2)},
)
def count_nans(logits, broken):
    from vllm.v1.worker.gpu.metrics.logits import get_num_nans

    return get_num_nans(logits.masked_fill(broken > 0, float("nan")))


@count_nans.reference
def count_nans_reference(broken):
    return broken.sum(-1).int()


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={
        "logits": tensor("T", "V", grad=False),
        "keys": tensor("T", grad=False, dtype=DType.FP32),
        "allowed": integers("T", "V", high=2),
    },
)
def grammar(logits, keys, allowed):
    """Ban what a grammar does not allow; the masks come in an order of their own."""
    from vllm.v1.worker.gpu.structured_outputs import _apply_grammar_bitmask_kernel

    logits, order = logits.clone(), keys.argsort().int()
    masks = bits().packed_bits(allowed)
    grid = (len(order), -(-logits.shape[1] // 8192))
    _apply_grammar_bitmask_kernel[grid](
        logits, logits.stride(0), order, masks, masks.stride(0), logits.shape[1], BLOCK_SIZE=8192
    )
    return logits


@grammar.reference
def grammar_reference(logits, keys, allowed):
    return logits.masked_fill(allowed[keys.argsort().argsort()] == 0, float("-inf"))


def bits():
    return beside(__file__, "packed_bits.py")


def stacked(rows):
    import torch

    return torch.stack(rows)
