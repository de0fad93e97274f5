"""Zoo: elementwise kernels, with several results, in place, by descriptors and in strides of the grid."""

from harness.suite import Dim, Draw, DType, beside, groups, op, tensor, tokens, width

KERNELS = "kernels/pointwise.py"
ROWS = {"T": tokens(512), "D": width(512)}
X = {"x": tensor("T", "D")}
PAIR = {"a": tensor("T", "D"), "b": tensor("T", "D")}
BETAS = (0.9, 0.999)
ADAM = {"rate": 1e-3, "eps": 1e-8, "decay": 1e-2}


@op(dims=ROWS, inputs=X)
def gelu(x):
    return beside(__file__, KERNELS).activated(x, "gelu")


@gelu.reference
def gelu_reference(x):
    return 0.5 * x * (1 + (x / 2**0.5).erf())


@op(dims=ROWS, inputs=X)
def gelu_tanh(x):
    return beside(__file__, KERNELS).activated(x, "gelu_tanh")


@gelu_tanh.reference
def gelu_tanh_reference(x):
    return 0.5 * x * (1 + (0.7978845608028654 * (x + 0.044715 * x**3)).tanh())


@op(dims=ROWS, inputs=X)
def softplus(x):
    return beside(__file__, KERNELS).activated(x, "softplus")


@softplus.reference
def softplus_reference(x):
    return (1 + x.exp()).log()


@op(dims=ROWS, inputs=PAIR)
def swiglu(a, b):
    return beside(__file__, KERNELS).gate(a, b, "silu")


@swiglu.reference
def swiglu_reference(a, b):
    return a / (1 + (-a).exp()) * b


@op(dims=ROWS, inputs=PAIR)
def geglu(a, b):
    return beside(__file__, KERNELS).gate(a, b, "gelu_tanh")


@geglu.reference
def geglu_reference(a, b):
    return gelu_tanh_reference(a) * b


@op(
    dims={"B": Dim(low=1, high=4), "T": tokens(128, grows=False), "H": groups(1, 2, 3), "D": width(64)},
    inputs={"x": tensor("B", "T", "H", "2*D"), "angle": tensor("T", "D", grad=False, dtype=DType.FP32)},
    apart=("B", "H"),
)
def rotary(x, angle):
    return beside(__file__, KERNELS).rotary(x, angle.cos(), angle.sin())


@rotary.reference
def rotary_reference(x, angle):
    import torch

    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


@op(dims=ROWS, inputs={"a": tensor("T", "D", 2), "b": tensor("T", "D", 2)})
def complex_product(a, b):
    return beside(__file__, KERNELS).complex_product(a, b)


@complex_product.reference
def complex_product_reference(a, b):
    import torch

    (a_re, a_im), (b_re, b_im) = a.unbind(-1), b.unbind(-1)
    return torch.stack([a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re], dim=-1)


@op(dims=ROWS, inputs={**PAIR, "weight": tensor("T", "D", draw=Draw.UNIT)})
def lerp(a, b, weight):
    return beside(__file__, KERNELS).lerp(a, b, weight)


@lerp.reference
def lerp_reference(a, b, weight):
    return (1 - weight) * a + weight * b


@op(dims=ROWS, inputs={"x": tensor("T", "D"), "y": tensor("T", "D")}, options={"alpha": (2.0, -0.3)})
def scaled_sum_in_grid_strides(x, y, alpha):
    return beside(__file__, KERNELS).scaled_sum(x, y, alpha)


@scaled_sum_in_grid_strides.reference
def scaled_sum_reference(x, y, alpha):
    return alpha * x + y


@op(dims=ROWS, inputs=X)
def transpose(x):
    return beside(__file__, KERNELS).transpose(x)


@transpose.reference
def transpose_reference(x):
    return x.mT


# Descriptors need rows whose bytes are a multiple of 16.
@op(dims={"T": tokens(512, grows=False), "D": width(64)}, inputs={"x": tensor("T", "8*D", grad=False)})
def scale_by_descriptors(x):
    return beside(__file__, KERNELS).scale(x, 0.125)


@scale_by_descriptors.reference
def scale_by_descriptors_reference(x):
    return x / 8


@op(
    dims=ROWS,
    inputs={
        "p": tensor("T", "D", grad=False),
        "g": tensor("T", "D", grad=False),
        "m": tensor("T", "D", grad=False, dtype=DType.FP32),
        "v": tensor("T", "D", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
    },
    options={"step": (1, 1000)},
)
def adam(p, g, m, v, step):
    p, m, v = (one.contiguous() for one in (p, m, v))
    return beside(__file__, KERNELS).adam(p, g, m, v, step=step, betas=BETAS, **ADAM)


@adam.reference
def adam_reference(p, g, m, v, step):
    first, second = BETAS
    m = first * m + (1 - first) * g
    v = second * v + (1 - second) * g.square()
    m_hat, v_hat = m / (1 - first**step), v / (1 - second**step)
    decayed = p - ADAM["rate"] * ADAM["decay"] * p
    return decayed - ADAM["rate"] * m_hat / (v_hat.sqrt() + ADAM["eps"]), m, v
