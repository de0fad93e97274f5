"""RWKV-7 with heads of 64, as rwkv-fla has it: its kernels moved to flash-linear-attention later."""

from harness.suite import Dim, Draw, beside, op, tensor, tokens

LIBRARY = (("rwkv-fla", "fla-core", "flash-linear-attention"),)
HEAD_SIZE = 64
DIMS = {
    "B": Dim(low=1, high=2),
    "T": tokens(150, grows=False),
    "H": Dim(low=1, high=3),
    "K": Dim(low=HEAD_SIZE, high=HEAD_SIZE),
}
INPUTS = {
    "r": tensor("B", "T", "H", "K"),
    "w": tensor("B", "T", "H", "K", draw=Draw.LOG_UNIT),
    "k": tensor("B", "T", "H", "K"),
    "v": tensor("B", "T", "H", "K"),
    "kk": tensor("B", "T", "H", "K", draw=Draw.NORMALISED),
    "a": tensor("B", "T", "H", "K", draw=Draw.UNIT),
    "initial_state": tensor("B", "H", "K", "K", optional=True),
}


@op(requires=LIBRARY, dims=DIMS, inputs=INPUTS)
def chunk_dplr(r, w, k, v, kk, a, initial_state):
    from fla.ops.generalized_delta_rule import chunk_dplr_delta_rule

    return chunk_dplr_delta_rule(r, k, v, -kk, kk * a, w, 1.0, initial_state, output_final_state=True)


@chunk_dplr.reference
def chunk_dplr_reference(r, w, k, v, kk, a, initial_state):
    recurrences = beside(__file__, "../fla/definitions/_recurrences.py")
    return recurrences.low_rank(r, k, v, -kk, kk * a, w, initial_state)
