"""The activations of flash-linear-attention: alone, as gates, and as gates before a linear layer."""

from harness.suite import Dim, op, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
SIZES = {"B": Dim(low=1, high=4), "T": tokens(512), "D": width(512)}
ONE = {"x": tensor("B", "T", "D")}
TWO = {"x": tensor("B", "T", "D"), "y": tensor("B", "T", "D")}
LINEAR = {**TWO, "weight": tensor("O", "D"), "bias": tensor("O", optional=True)}
LINEAR_SIZES = {**SIZES, "O": width(128)}


@op(requires=LIBRARY, dims=SIZES, inputs=ONE)
def sigmoid(x):
    from fla.modules import activations

    return activations.sigmoid(x)


@sigmoid.reference
def sigmoid_reference(x):
    return x.sigmoid()


@op(requires=LIBRARY, dims=SIZES, inputs=ONE)
def swish(x):
    from fla.modules import activations

    return activations.swish(x)


@swish.reference
def swish_reference(x):
    return x * x.sigmoid()


@op(requires=LIBRARY, dims=SIZES, inputs=ONE, options={"temperature": (1.0, 0.25, 16.0)})
def logsigmoid(x, temperature):
    from fla.modules import activations

    return activations.logsigmoid(x, temperature)


@logsigmoid.reference
def logsigmoid_reference(x, temperature):
    most = (-x).clamp(min=0).detach()  # avoids overflow, and keeps the slope 1/2 at 0
    return -(most + ((-most).exp() + (-x - most).exp()).log()) / temperature


@op(requires=LIBRARY, dims=SIZES, inputs=ONE)
def elu_p1(x):
    from fla.modules import activations

    return activations.elu_p1(x)


@elu_p1.reference
def elu_p1_reference(x):
    import torch

    return torch.where(x >= 0, x + 1, x.clamp(max=0).exp())


@op(requires=LIBRARY, dims=SIZES, inputs=TWO)
def swiglu(x, y):
    from fla.modules import activations

    return activations.swiglu(x, y)


@swiglu.reference
def swiglu_reference(x, y):
    return x * x.sigmoid() * y


@op(requires=LIBRARY, dims=SIZES, inputs=TWO)
def sigmoidglu(x, y):
    from fla.modules import activations

    return activations.sigmoidglu(x, y)


@sigmoidglu.reference
def sigmoidglu_reference(x, y):
    return x.sigmoid() * y


@op(requires=LIBRARY, dims=SIZES, inputs=TWO, options={"power": (3.0, 1.5)})
def powglu(x, y, power):
    from fla.modules import activations

    return activations.powglu(x, y, power)


@powglu.reference
def powglu_reference(x, y, power):
    return power_gate(x, power) * y


@op(requires=LIBRARY, dims=LINEAR_SIZES, inputs=LINEAR)
def swiglu_linear(x, y, weight, bias):
    from fla.modules import activations

    return activations.swiglu_linear(x, y, weight, bias)


@swiglu_linear.reference
def swiglu_linear_reference(x, y, weight, bias):
    return linear(x * x.sigmoid() * y, weight, bias)


@op(requires=LIBRARY, dims=LINEAR_SIZES, inputs=LINEAR)
def sigmoidglu_linear(x, y, weight, bias):
    from fla.modules import activations

    return activations.sigmoidglu_linear(x, y, weight, bias)


@sigmoidglu_linear.reference
def sigmoidglu_linear_reference(x, y, weight, bias):
    return linear(x.sigmoid() * y, weight, bias)


@op(requires=LIBRARY, dims=LINEAR_SIZES, inputs=LINEAR, options={"power": (3.0, 1.5)})
def powglu_linear(x, y, weight, bias, power):
    from fla.modules import activations

    return activations.powglu_linear(x, y, weight, bias, power)


@powglu_linear.reference
def powglu_linear_reference(x, y, weight, bias, power):
    return linear(power_gate(x, power) * y, weight, bias)


def power_gate(x, power):
    """Swish for x <= 0, and `x ** (power / (sqrt(x) + 1)) * sigmoid(x)` for x > 0 (arXiv:2605.25704)."""
    import torch

    base = torch.where(x > 0, x, torch.ones_like(x))  # keeps NaN out of the gradient of the unused branch
    return torch.where(x > 0, (power / (base.sqrt() + 1) * base.log()).exp(), x) * x.sigmoid()


def linear(rows, weight, bias):
    """Apply a linear layer."""
    out = rows @ weight.T
    return out if bias is None else out + bias
