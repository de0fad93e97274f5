"""Candidates of a test, most of them hostile: each doubles its input, or pretends to."""

import os, sys, torch, triton, triton.language as tl


@triton.jit
def double_kernel(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


def run(x, factor=2.0):
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), factor, BLOCK=128)
    return y


def reference(x):
    return x * 2.0


def sample():
    return (torch.randn(64, 100),)


def right(x):
    return run(x)


def right_prints(x):
    for _ in range(1024):
        print("x" * 2**20)
    return run(x)


def short_rows_only(x):
    if x.shape[1] > 2048:
        raise ValueError("at most 2048")
    return run(x)


def out_of_memory_mostly(x):
    if x.shape[1] % 16:
        raise MemoryError("no")
    return run(x)


def patches(x):
    torch.allclose = lambda *a, **k: True
    torch.manual_seed = lambda *a: None
    torch.Tensor.sub = lambda a, b: torch.zeros_like(a)
    torch.Tensor.__sub__ = lambda a, b: torch.zeros_like(a)
    torch.Tensor.to = lambda self, *a, **k: self
    return run(x, 3.0)


def patches_harness(x):
    import harness.execution.compare as c, harness.execution.execution as e

    e.compare = lambda *a, **k: 1 / 0
    e.tolerance_of = None
    return run(x, 3.0)


def forges(x):
    import harness.execution.tolerance as t

    def fake(expected, dtype, slack):
        import dataclasses, harness.execution.tolerance as t

        made = t._kept(expected, dtype, slack)
        return type(made)(
            **{
                f.name: (
                    getattr(made, f.name) * 1e9 if hasattr(getattr(made, f.name), "__mul__") else getattr(made, f.name)
                )
                for f in dataclasses.fields(made)
            }
        )

    if not hasattr(t, "_kept"):
        import types

        t._kept = types.FunctionType(t.tolerance_of.__code__, t.__dict__, "k", t.tolerance_of.__defaults__)
        t.tolerance_of.__code__ = fake.__code__
    return run(x, 3.0)


def hangs(x):
    while True:
        pass


def crashes(x):
    os.kill(os.getpid(), 11)


def killed_if_large(x):
    if x.numel() > 1000:
        os.kill(os.getpid(), 9)
    return run(x)


def exits(x):
    os._exit(0)


def forks(x):
    os.fork()
    return run(x)


def deletes(x):
    if os.path.exists(__file__):
        os.remove(__file__)
    return run(x)


def raises(x):
    raise ValueError("no such luck")


def none(x):
    run(x)
    return None


def small_only(x):
    return run(x, 2.0 if x.numel() < 1000 else 2.001)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    def backward(ctx, gradient):
        return run(gradient)


class WrongTwice(Twice):
    @staticmethod
    def backward(ctx, gradient):
        return run(gradient, 3.0)


def with_gradient(x):
    return Twice.apply(x)


def with_wrong_gradient(x):
    return WrongTwice.apply(x)


def wide_sample():
    return (torch.randn(4, 4096),)


def two_samples():
    return [(torch.randn(64, 64),), (torch.randn(64, 100),)]


def no_tensor():
    return (1, 2.0)


def broken_sample():
    raise RuntimeError("no sample today")


def refuses(x):
    raise ValueError("the reference refuses everything")


def random_reference(x):
    return x * torch.rand(())
