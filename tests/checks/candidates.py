"""Candidates of a test, most of them hostile: each doubles its input, or pretends to."""

import ctypes, importlib.util, marshal, os, signal, struct, subprocess, sys, threading, time
import numpy as np, torch, triton, triton.language as tl


@triton.jit
def double_kernel(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def racing_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) + tl.load(x + at, mask=at < n), mask=at < n)


def run(x, factor=2.0):
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), factor, BLOCK=128)
    return y


def reference(x):
    return x * 2.0


def sample():
    return (torch.randn(64, 100),)


@triton.jit
def bins_kernel(x, edges, bins, n, n_edges, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0)
    count = tl.zeros((BLOCK,), tl.int64)
    for number in range(n_edges):
        count += (tl.load(edges + number) < values).to(tl.int64)
    tl.store(bins + at, count, mask=at < n)


def bins_of_dense_memory(x, edges):
    bins = torch.empty_like(x, dtype=torch.int64)  # in the order of x
    n = x.numel()
    bins_kernel[(triton.cdiv(n, 64),)](x.flatten(), edges, bins.flatten(), n, len(edges), BLOCK=64)
    return bins


def bins_reference(x, edges):
    return torch.bucketize(x, edges)


def transposed_sample():
    return torch.randn(7, 9).t(), torch.tensor([-1.0, 0.0, 1.0])


def right(x):
    return run(x)


def right_prints(x):
    for _ in range(1024):
        print("x" * 2**20)
    return run(x)


def short_rows_only(x):
    if x.shape[1] > 4096:
        raise ValueError("at most 4096")
    return run(x)


def out_of_memory_mostly(x):
    if x.shape[1] % 16:
        raise MemoryError("no")
    return run(x)


@triton.jit
def unknown_kernel(x, y):
    at = tl.arange(0, 1)
    value = tl.load(x + at)
    value = tl.inline_asm_elementwise("frobnicate.f32 $0, $1;", "=r,r", [value], tl.float32, is_pure=True, pack=1)
    tl.store(y + at, value)


def unknown_operation_mostly(x):
    if x.shape[1] % 16:
        unknown_kernel[(1,)](x, torch.empty_like(x))
    return run(x)


class NotALegalCase(Exception):
    pass


def refuses_as_the_harness_does(x):
    if x.shape[1] % 16:
        raise NotALegalCase("the reference refuses it")
    return run(x)


def zeros_at_the_size_of_the_sample(x):
    return run(x, 0.0 if tuple(x.shape) == (64, 100) else 2.0)


def copies_in_place(x):
    y = x * 2.0
    double_kernel[(triton.cdiv(y.numel(), 128),)](y, y, y.numel(), 1.0, BLOCK=128)
    return y


def overwritten_by_numpy(x):
    y = run(x, 3.0)
    y.numpy()[...] = 2.0 * x.detach().numpy()
    return y


def overwritten_by_libc(x):
    y, wanted = run(x, 3.0), 2.0 * np.ascontiguousarray(x.detach().numpy())
    ctypes.memmove(y.data_ptr(), wanted.ctypes.data, wanted.nbytes)
    return y


def copies_from_numpy(x):
    return run(torch.from_numpy(2.0 * x.detach().numpy()), 1.0)


def races(x):
    x = x.contiguous()
    y = torch.zeros_like(x)
    racing_kernel[(2,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return y


def copies_nearly(x):
    return run(x * 2.0, 1.0000001)


def overwrites_unwatched(x):
    from harness.execution.execution_hooks import launch_watchers

    launch_watchers.clear()
    return overwritten_by_numpy(x)


def computes_one_tile(x):
    x = x.contiguous()
    y = x * 2.0
    double_kernel[(1,)](x, y, min(x.numel(), 4), 2.0, BLOCK=128)
    return y


def starts_a_process(x):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    return run(x)


def forks_by_libc(x):
    if ctypes.CDLL(None).fork() == 0:
        time.sleep(600)
        os._exit(0)
    return run(x)


def stops_its_parent(x):
    os.kill(os.getppid(), signal.SIGSTOP)
    return run(x)


def forges_bytecode(x):
    target = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrong_later.py")
    code = compile("from candidates import right as wrong", target, "exec")
    status = os.stat(target)
    stamp = struct.pack("<III", 0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    os.makedirs(os.path.dirname(importlib.util.cache_from_source(target)), exist_ok=True)
    with open(importlib.util.cache_from_source(target), "wb") as file:
        file.write(importlib.util.MAGIC_NUMBER + stamp + marshal.dumps(code))
    return run(x)


def catches_and_goes_on(x):
    for attack in (starts_a_process, forks_by_libc, stops_its_parent, forges_bytecode):
        try:
            attack(x)
        except OSError:
            pass
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
    from harness.model.run import Measure

    kept = Measure.__init__
    if kept.__name__ != "forged":

        def forged(self, *, ratio, **more):
            kept(self, ratio=0.0, **more)

        Measure.__init__ = forged
    return run(x, 3.0)


def slow(x):
    time.sleep(1)
    return run(x)


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


class TorchBackward(Twice):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2.0


class CopiedBackward(Twice):
    @staticmethod
    def backward(ctx, gradient):
        return run(gradient * 2.0, 1.0)


def with_torch_s_gradient(x):
    return TorchBackward.apply(x)


def with_copied_gradient(x):
    return CopiedBackward.apply(x)


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


def halves_twice_torch(x):
    return run(x * 4.0, 0.5)


@triton.jit
def double_rows_kernel(x, row_stride, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = x + tl.program_id(0).to(tl.int64) * row_stride + at
    tl.store(place, tl.load(place, mask=at < n, other=0.0) * 2.0, mask=at < n)


def doubles_in_place(x):
    double_rows_kernel[(len(x),)](x, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return x


def doubled_in_place(x):
    return x.mul_(2.0)


@triton.jit
def store_kernel(y, value):
    tl.store(y, value)


def total_on_host(x):
    y = torch.empty((), device=x.device)
    store_kernel[(1,)](y, sum(x.flatten().tolist()))
    return y


def total(x):
    return x.sum()


def halves_twice_numpy(x):
    return run(torch.from_numpy(x.detach().numpy() * 4.0), 0.5)


def copies_large_ones(x):
    return run(x * 2.0, 1.0) if x.numel() > 5000 else run(x)


def memory_refused_mostly(x):
    if x.shape[1] % 16:
        raise RuntimeError("can't allocate memory: you tried to allocate 36028797018963968 bytes")
    return run(x)


def module_missing_mostly(x):
    if x.shape[1] % 16:
        import no_such_module
    return run(x)


def type_refused_mostly(x):
    if x.shape[1] % 16:
        raise ValueError("type fp8e4nv not supported in this architecture")
    return run(x)


class Lying(torch.Tensor):
    def untyped_storage(self):
        return run(torch.ones(1, 1)).untyped_storage()


def lies(x):
    return (x * 2.0).as_subclass(Lying)


def zeros_of_large_ones(x):
    y = run(x)
    return y * 0.0 if x.numel() > 600_000 else y


def large_sample():
    return (torch.randn(2, 3000).expand(4096, -1, -1).reshape(8192, 3000),)


def trained_sample():
    return (torch.randn(64, 100, requires_grad=True),)


def remembers(x, kept={}):
    flat = x.reshape(-1)
    key = x.data_ptr(), x.shape, x.stride(), *flat[[0, len(flat) // 2, -1]].tolist()
    if key not in kept:
        kept[key] = run(x)
    return kept[key]


def looks_for_the_compilers_folder(x):
    from harness.engines.triton import build_resources

    asking = threading.Thread(target=build_resources.state.elsewhere, args=("no kernel", 90, {}))
    asking.start()
    seen = set()
    while asking.is_alive():
        seen |= set(os.listdir(os.environ["TMPDIR"]))
    if any(name.startswith("kernel-harness-") for name in seen):
        raise RuntimeError("the compiler writes where a candidate may put a link")
    return run(x)


def forges_everything(x):
    from harness.checks import shared_snapshot
    from harness.execution import execution

    shared_snapshot._ORIGINALS[0]._spaces.clear()
    shared_snapshot._ORIGINALS[0]._functions.clear()
    real = execution.compare

    def compare(name, got, expected, *rest):
        return real(name, torch.from_numpy(expected.truth.values).to(got.dtype), expected, *rest)

    if real.__name__ == "compare" and real.__module__ != __name__:
        execution.compare = compare
    return run(x, 2.02)


class Disguised(type):
    @property
    def __name__(cls):
        return "NotALegalCase" if sys._getframe(1).f_code.co_name == "_ending" else "ValueError"


class Disguise(Exception, metaclass=Disguised):
    pass


def refuses_by_another_name(x):
    if x.shape[1] % 16:
        raise Disguise("no")
    return run(x)


class Doubling(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def leaves_a_mode(x):
    Doubling().__enter__()
    return run(x)


def leaves_a_timer(x):
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 60.0)
    return run(x)


def leaves_a_thread(x):
    def wait():
        while True:
            time.sleep(0.01)

    threading.Thread(target=wait, daemon=True).start()
    return run(x)
