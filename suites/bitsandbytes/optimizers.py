"""One step of bitsandbytes' optimizers with states of 32 bits, through its Triton backend."""

from harness.suite import Dim, Draw, DType, op, tensor

BETAS = (0.9, 0.99, 0.999)
ALPHA = 5.0
EPS = 1e-8
RATE = 0.01
LARGEST_UPDATE = 0.5
PARAMETER_NORM = 2.0


@op(
    requires=("bitsandbytes",),
    stubs={"bitsandbytes": "bitsandbytes_stubs.py"},
    dims={"N": Dim(low=1, high=4000)},
    inputs={
        "gradient": tensor("N", grad=False),
        "parameter": tensor("N", grad=False),
        "first": tensor("2*N", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
        "second": tensor("N", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
    },
    options={
        "name": ("adam", "ademamix", "momentum", "rmsprop", "adagrad", "lion"),
        "number": (1, 5),
        "weight_decay": (0.0, 0.1),
        "is_clipped": (False, True),
    },
    # The norm that clips an update is of the update without the decay.
    where=lambda at: not at["is_clipped"] or (at["name"] in {"adam", "momentum", "rmsprop"} and not at["weight_decay"]),
    waives=frozenset({"repeatability", "order-dependence", "order-invariance"}),  # the norm is summed atomically
)
def step(gradient, parameter, first, second, N, name, number, weight_decay, is_clipped):
    from bitsandbytes.backends.triton.ops import optimizer_update_32bit

    parameter, second = parameter.clone(), second.clone()
    first = (first if name == "ademamix" else first[:N]).clone()
    has_second = name in {"adam", "ademamix"}
    optimizer_update_32bit(
        name,
        gradient.contiguous(),
        parameter,
        first,
        second if has_second else None,
        first.new_zeros(1),
        LARGEST_UPDATE if is_clipped else 0.0,
        PARAMETER_NORM,
        *BETAS,
        ALPHA,
        EPS,
        weight_decay,
        number,
        RATE,
        1.0,
    )
    return (parameter, first, second) if has_second else (parameter, first)


@step.reference
def step_reference(gradient, parameter, first, second, N, name, number, weight_decay, is_clipped):
    beta, beta2, beta3 = BETAS
    slow, first = first[N:], first[:N]
    if name in {"adam", "ademamix", "lion"}:
        parameter = parameter * (1 - RATE * weight_decay)
    else:
        gradient = gradient + weight_decay * parameter
    square = gradient * gradient
    match name:
        case "adam" | "ademamix":
            first = beta * first + (1 - beta) * gradient
            second = beta2 * second + (1 - beta2) * square
            mean, deviation = first / (1 - beta**number), (second / (1 - beta2**number)).sqrt()
            if name == "ademamix":
                slow = beta3 * slow + (1 - beta3) * gradient
                update = (mean + ALPHA * slow) / (deviation + EPS)
            else:
                update = mean / (deviation + EPS)
        case "momentum":
            first = gradient if number == 1 else beta * first + gradient
            update = first
        case "rmsprop":
            first = beta * first + (1 - beta) * square
            update = gradient / (first.sqrt() + EPS)
        case "adagrad":
            first = first + square
            update = gradient / (first.sqrt() + EPS)
        case "lion":
            update = (beta * first + (1 - beta) * gradient).sign()
            first = beta2 * first + (1 - beta2) * gradient
    if is_clipped:
        norm, most = update.square().sum().sqrt(), LARGEST_UPDATE * PARAMETER_NORM
        update = update * (most / norm).clamp(max=1)
    parameter = parameter - RATE * update
    if name == "ademamix":
        return parameter, joined(first, slow), second
    return (parameter, first, second) if name == "adam" else (parameter, first)


def joined(*parts):
    import torch

    return torch.cat(parts)
