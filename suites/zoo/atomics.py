"""Zoo: reductions across programs by atomics, whose order of additions is left open."""

from harness.suite import beside, groups, integers, op, tensor, tokens, width

KERNELS = "kernels/atomics.py"
ROWS = {"T": tokens(512, grows=False), "D": width(256)}


@op(dims={"T": tokens(2048, grows=False), "N": groups(16, 64)}, inputs={"x": integers("T", high="N")})
def histogram(x, N):
    return beside(__file__, KERNELS).histogram(x, N)


@histogram.reference
def histogram_reference(x, N):
    return x.bincount(minlength=N)


@op(
    dims={"T": tokens(2048, grows=False), "N": width(64)},
    inputs={"x": integers("T", high="N"), "weight": tensor("T", grad=False)},
)
def weighted_bincount(x, weight, N):
    return beside(__file__, KERNELS).bincount(x, weight, N)


@weighted_bincount.reference
def weighted_bincount_reference(x, weight, N):
    return weight.new_zeros(N).index_add(0, x, weight)


@op(
    dims={**ROWS, "N": width(32)},
    inputs={"x": tensor("T", "D"), "index": integers("T", high="N")},
    apart=("D",),
)
def segment_sum(x, index, N):
    return beside(__file__, KERNELS).segment_sum(x, index, N)


@segment_sum.reference
def segment_sum_reference(x, index, N):
    return x.new_zeros(N, x.shape[1]).index_add(0, index, x)


@op(
    dims={**ROWS, "N": width(128)},
    inputs={"table": tensor("N", "D"), "index": integers("T", high="N")},
    apart=("D",),
)
def embedding(table, index):
    return beside(__file__, KERNELS).embedding(table, index)


@embedding.reference
def embedding_reference(table, index):
    return table[index]


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)})
def column_moments(x):
    return beside(__file__, KERNELS).moments(x)


@column_moments.reference
def column_moments_reference(x):
    mean = x.mean(0)
    return mean, (x - mean).square().mean(0)


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)})
def column_moments_by_squares(x):
    return beside(__file__, KERNELS).moments(x)


@column_moments_by_squares.reference
def column_moments_by_squares_reference(x):
    mean = x.mean(0)
    return mean, x.square().mean(0) - mean.square()


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)}, options={"most": (1.0, 1e6)})
def clip_norm(x, most):
    return beside(__file__, KERNELS).clip_norm(x, most)


@clip_norm.reference
def clip_norm_reference(x, most):
    norm = x.square().sum().sqrt()
    return x * (most / (norm + 1e-6)).clamp(max=1.0), norm.reshape(1)


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)})
def global_abs_max(x):
    return beside(__file__, KERNELS).largest(x)


@global_abs_max.reference
def global_abs_max_reference(x):
    return x.abs().amax().reshape(1)
