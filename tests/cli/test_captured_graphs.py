"""CUDA graphs on the virtual GPU: in suites, and under `harness run`."""

from pathlib import Path

import pytest

from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, N, FACTOR: tl.constexpr, MORE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N) * FACTOR, mask=at < N + MORE)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), FACTOR=3, MORE=0, BLOCK=16)
        return y

    @staticmethod
    def backward(ctx, dy):
        return Scale.apply(dy.contiguous())


@triton.jit
def bias_kernel(x, bias, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N) + tl.load(bias), mask=at < N)


@triton.jit
def total_kernel(x, total, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + at, mask=at < N, other=0.0), 0))


class Bias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        y = torch.empty_like(x)
        bias_kernel[(triton.cdiv(x.numel(), 16),)](x, bias, y, x.numel(), BLOCK=16)
        return y

    @staticmethod
    def backward(ctx, dy):
        dy, total = dy.contiguous(), torch.zeros(1, device=dy.device)
        total_kernel[(triton.cdiv(dy.numel(), 16),)](dy, total, dy.numel(), BLOCK=16)
        return dy, total


def model(x, bias):
    return Scale.apply(Bias.apply(Scale.apply(x), bias).relu())


def scale(x, more=0):
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), FACTOR=3, MORE=more, BLOCK=16)
    return y
"""
SUITE = """
from harness.suite import beside, op, tensor, tokens

X = {"x": tensor("T", grad=False)}
DIMS = {"T": tokens(64, grows=False)}


def captured(x, forgotten):
    import torch

    scale = beside(__file__, "kernels.py").scale
    static, total, graph = torch.empty_like(x), torch.zeros_like(x), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = scale(static + 1)
        y = y - static.relu() if not forgotten else y
        total += y
    static.copy_(-x)
    graph.replay()
    static.copy_(x)
    graph.replay()
    return total


@op(dims=DIMS, inputs=X)
def replayed(x):
    return captured(x, False)


@op(dims=DIMS, inputs=X)
def wrongly_replayed(x):
    return captured(x, True)


@replayed.reference
@wrongly_replayed.reference
def reference(x):
    return sum(3 * (each + 1) - each.relu() for each in (-x, x))


@op(dims=DIMS, inputs={"x": tensor("T")})
def graphed_callable(x):
    import torch

    scale = beside(__file__, "kernels.py").Scale.apply
    sample = torch.zeros_like(x).requires_grad_(x.requires_grad)
    return torch.cuda.make_graphed_callables(scale, (sample,))(x) if x.requires_grad else scale(x)


@graphed_callable.reference
def threefold(x):
    return 3 * x


MODEL = {"x": tensor("T"), "bias": tensor(1, contiguous=True)}


@op(dims=DIMS, inputs=MODEL)
def graphed_model(x, bias):
    import torch

    model = beside(__file__, "kernels.py").model
    samples = tuple(torch.zeros_like(each).requires_grad_(each.requires_grad) for each in (x, bias))
    both = x.requires_grad and bias.requires_grad
    return torch.cuda.make_graphed_callables(model, samples)(x, bias) if both else model(x, bias)


@op(dims=DIMS, inputs=MODEL, graphs=True, threads=True)
def captured_step(x, bias):
    return beside(__file__, "kernels.py").model(x, bias)


@graphed_model.reference
@captured_step.reference
def layers(x, bias):
    return 3 * (3 * x + bias).relu()


@op(dims=DIMS, inputs=X)
def reading(x):
    import torch

    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        if x.sum().item() > 0:
            x = x + 1
    return beside(__file__, "kernels.py").scale(x)


reading.reference(threefold)


@op(dims=DIMS, inputs=X, graphs=True)
def never_captured(x):
    factor = 1 if x.sum().item() > 0 else 1
    return beside(__file__, "kernels.py").scale(x * factor)


never_captured.reference(threefold)


@op(dims=DIMS, inputs=X, graphs=True)
def in_pieces(x):
    scale = beside(__file__, "kernels.py").scale
    y = x.new_empty(x.shape)
    for begin in range(0, len(x), 7):
        y[begin : begin + 7] = scale(x[begin : begin + 7].clone())
    return y


in_pieces.reference(threefold)


TABLES = {}


@op(dims=DIMS, inputs=X, graphs=True)
def with_tables(x):
    import torch

    table = TABLES.setdefault(len(x), torch.full((len(x),), 2.0, device=x.device))
    return beside(__file__, "kernels.py").scale(x * table + torch.tensor([1.0], device=x.device) * x)


with_tables.reference(lambda x: 9 * x)


@op(dims=DIMS, inputs=X)
def left_open(x):
    import torch

    if x.numel() % 2 == 0:
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.CUDAGraph().capture_begin()
            raise ValueError("left open")
    return beside(__file__, "kernels.py").scale(x)


left_open.reference(threefold)


@op(dims=DIMS, inputs=X)
def never_joined(x):
    import torch

    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = beside(__file__, "kernels.py").scale(x)
    return y


never_joined.reference(threefold)
"""
TESTS = """
import kernels
import torch


def graph_of(more):
    x = torch.empty(20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernels.scale(x, more) + 1
    return x, y, graph


def test_a_replay_has_the_values_of_its_time():
    x, y, graph = graph_of(0)
    for value in (2.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [3 * value + 1] * 20


def test_a_capture_runs_nothing():
    graph_of(1)


def test_a_replay_is_checked():
    x, y, graph = graph_of(1)
    x.fill_(2.0)
    graph.replay()


def test_a_graphed_callable_has_gradients():
    sample = torch.zeros(20, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(lambda x: kernels.Scale.apply(x) * 2, (sample,))
    for value in (2.0, 5.0):
        x = torch.full((20,), value, device="cuda", requires_grad=True)
        y = graphed(x)
        (y * value).sum().backward()
        assert (y.tolist(), x.grad.tolist()) == ([6 * value] * 20, [6 * value] * 20)
"""


STREAMS = """
import kernels
import pytest
import torch


def branches(waits):
    x, graph, side = torch.ones(20, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        y = kernels.scale(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            assert torch.cuda.is_current_stream_capturing()
            z = kernels.scale(y)
        y2 = kernels.scale(x + 1)
        if waits:
            torch.cuda.current_stream().wait_stream(side)
        total = y2 + z
    return x, total, graph


def test_a_fork_that_joins_is_replayed():
    x, total, graph = branches(True)
    for value in (2.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert total.tolist() == [9 * value + 3 * (value + 1)] * 20


def test_a_fork_without_a_join_fails():
    with pytest.raises(torch.AcceleratorError, match="unjoined work"):
        branches(False)
    assert not torch.cuda.is_current_stream_capturing()


def test_work_on_another_stream_is_not_captured():
    x, y, graph = torch.ones(20, device="cuda"), torch.ones(20, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with torch.cuda.stream(torch.cuda.Stream()):
            assert not torch.cuda.is_current_stream_capturing()
            y.add_(1)
            assert kernels.scale(x).tolist() == [3.0] * 20
        x.add_(1)
    graph.replay()
    assert (x[0].item(), y[0].item()) == (2.0, 2.0)


def test_a_capture_forbids_what_cuda_forbids():
    before, after = torch.cuda.Event(), torch.cuda.Event()
    before.record()
    calls = {
        "uncaptured work in another stream": before.wait,
        "stream is capturing": torch.cuda.synchronize,
        "legacy stream": lambda: torch.cuda.default_stream().wait_stream(torch.cuda.current_stream()),
        "last recorded in a capturing stream": lambda: (after.record(), after.synchronize()),
    }
    for message, call in calls.items():
        with pytest.raises(torch.AcceleratorError, match="due to a previous error"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                with pytest.raises(torch.AcceleratorError, match=message):
                    call()
    torch.cuda.set_stream(torch.cuda.default_stream())  # torch leaves the stream of a capture that fails
    with pytest.raises(RuntimeError, match="captured on a non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()
"""
SERVING = """
import copy

import kernels
import torch
import triton
import triton.language as tl

SIZES, HIDDEN, MOST = (8, 4, 2, 1), 16, 32


@triton.jit
def attention(q, cache, lengths, y, LONGEST, HIDDEN: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, HIDDEN)
    query, length = tl.load(q + row * HIDDEN + at), tl.load(lengths + row)
    total = tl.zeros((HIDDEN,), tl.float32)
    for place in range(LONGEST):
        total += tl.load(cache + place * HIDDEN + at) * (place < length)
    tl.store(y + row * HIDDEN + at, total * query)


@triton.jit
def attention_of_any_length(q, cache, lengths, y, HIDDEN: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, HIDDEN)
    query, length = tl.load(q + row * HIDDEN + at), tl.load(lengths + row)
    total = tl.zeros((HIDDEN,), tl.float32)
    for place in range(length):
        total += tl.load(cache + place * HIDDEN + at)
    tl.store(y + row * HIDDEN + at, total * query)


class Runner:
    \"\"\"Serves batches up to eight rows, with a graph for each of four sizes in one pool.\"\"\"

    def __init__(self, longest=None):
        self.q = torch.zeros(8, HIDDEN, device="cuda")
        self.lengths = torch.ones(8, dtype=torch.int32, device="cuda")
        self.out = torch.zeros(8, HIDDEN, device="cuda")
        self.cache = torch.arange(MOST * HIDDEN, device="cuda").float().reshape(MOST, HIDDEN)
        self.longest = longest
        self.graphs = {}

    def step(self, n):
        y = torch.empty(n, HIDDEN, device="cuda")
        if self.longest:
            attention[(n,)](self.q, self.cache, self.lengths, y, self.longest(self), HIDDEN=HIDDEN)
        else:
            attention_of_any_length[(n,)](self.q, self.cache, self.lengths, y, HIDDEN=HIDDEN)
        self.out[:n].copy_(y * 2)

    def capture(self):
        pool, self.host_lengths = torch.cuda.graph_pool_handle(), [1] * 8
        for n in SIZES:
            self.step(n)
            self.graphs[n] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[n], pool=pool):
                self.step(n)

    def serve(self, q, lengths):
        n = min(size for size in SIZES if size >= len(q))
        self.host_lengths = lengths + [1] * (n - len(q))
        self.q[: len(q)].copy_(q)
        self.lengths[:n].copy_(torch.tensor(self.host_lengths, dtype=torch.int32))
        self.graphs[n].replay()
        return self.out[: len(q)].clone()


def served(runner):
    runner.capture()
    for rows in (3, 8, 1, 5, 2):
        q = torch.arange(rows * HIDDEN, device="cuda").float().reshape(rows, HIDDEN)
        lengths = [1 + (7 * row + rows) % MOST for row in range(rows)]
        expected = torch.stack([q[row] * runner.cache[: lengths[row]].sum(0) * 2 for row in range(rows)])
        torch.testing.assert_close(runner.serve(q, lengths), expected)


def test_graphs_by_batch_size_serve_what_calls_do():
    served(Runner())
    served(Runner(longest=lambda _: MOST))


def test_a_longest_length_of_the_capture_is_baked_in():
    served(Runner(longest=lambda runner: max(runner.host_lengths)))


def in_one_pool(keeps):
    x, graphs = torch.ones(20, device="cuda"), [torch.cuda.CUDAGraph() for _ in range(3)]
    out, pool = torch.zeros(20, device="cuda"), torch.cuda.graph_pool_handle()
    with torch.cuda.graph(graphs[0], pool=pool):
        plan = x * 2
    with torch.cuda.graph(graphs[1], pool=pool):
        out.copy_(kernels.scale(plan))
    held = plan if keeps else None
    del plan
    with torch.cuda.graph(graphs[2], pool=pool):
        other = x * 5
    for graph in graphs[0], graphs[2], graphs[1]:
        graph.replay()
    assert out.tolist() == [6.0] * 20
    return held, other


def test_memory_that_is_held_is_shared_between_graphs():
    in_one_pool(keeps=True)


def test_memory_that_another_graph_overwrites_is_lost():
    in_one_pool(keeps=False)


def replayed_input(keeps):
    x, out, graph = torch.ones(20, device="cuda"), torch.zeros(20, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(kernels.scale(x))
    held = x if keeps else None
    del x
    graph.replay()
    assert out.tolist() == [3.0] * 20
    return held


def test_an_input_that_is_held_is_no_finding():
    replayed_input(keeps=True)


def test_an_input_that_is_freed_before_the_replay():
    replayed_input(keeps=False)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x):
        return kernels.Scale.apply(self.inner(x).relu())


def trained(layers, x):
    leaf = h = x.clone().requires_grad_()
    for layer in layers:
        layer.inner.weight.grad = None  # it lies in the memory of the graph, which the next replay overwrites
        h = layer(h)
    h.square().mean().backward()
    return [h.detach(), leaf.grad, *(layer.inner.weight.grad for layer in layers)]


def test_graphed_layers_of_one_pool_train_as_without_graphs():
    layers = [Layer().cuda() for _ in range(3)]
    plain = copy.deepcopy(layers)
    samples = tuple((torch.randn(4, 8, device="cuda", requires_grad=True),) for _ in layers)
    graphed = torch.cuda.make_graphed_callables(tuple(layers), samples)
    for _ in range(2):
        x = torch.randn(4, 8, device="cuda")
        torch.testing.assert_close(trained(graphed, x), trained(plain, x))


def test_memory_of_a_capture_holds_nothing_before_the_replay():
    x, graph = torch.ones(20, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        table = torch.zeros(20, device="cuda")
    assert (table + x).tolist() == [1.0] * 20
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("kernels.py", KERNELS)
    made.write("suite.py", SUITE)
    made.write("test_graphs.py", TESTS)
    return made


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("op", "status", "said"),
    [
        ("replayed", 0, "6 passed, 0 failed, 0 abstained"),
        ("graphed_callable", 0, "6 passed, 0 failed, 0 abstained"),
        ("graphed_model", 0, "6 passed, 0 failed, 0 abstained"),
        ("wrongly_replayed", 1, "ERROR  float64-values  wrongly_replayed"),
        ("left_open", 1, "ValueError was raised by the suite, in the op's own function: left open"),
        ("never_joined", 1, "capturing stream has unjoined work"),
        ("reading", 3, "a CUDA graph whose host code reads a tensor during the capture"),
    ],
)
def test_a_suite_captures_and_replays(project: Project, op: str, status: int, said: str) -> None:
    done = project.harness("fuzz", "suite.py", "--op", op, "--cases", "6", "--seed", "1", "--device", "h200")
    assert (done.status, said in done.out) == (status, True), done.out + done.err


def test_calls_of_ops_that_declare_graphs_are_captured(project: Project) -> None:
    ops = "--op", "in_pieces", "--op", "never_captured", "--op", "captured_step", "--op", "with_tables"
    done = project.harness(
        *("fuzz", "suite.py", *ops, "--oracle", "graph-replay", "--cases", "16", "--seed", "1", "--device", "h200")
    )
    assert done.out.count("ERROR") == done.out.count("ERROR  graph-replay  never_captured") == 1, done.out + done.err
    words = " ".join(done.out.split())
    assert "its host code reads a tensor (aten._local_scalar_dense" in words
    assert "checked: graph-replay 16" in words


def test_launches_of_a_replay_are_checked_and_those_of_a_capture_not_made(project: Project) -> None:
    done = project.process("run", "--device", "h200", "--", "pytest", "-q", "-p", "no:cacheprovider", "test_graphs.py")
    assert "4 passed" in done.out, done.out + done.err
    assert "test           test_graphs.py::test_a_replay_is_checked" in done.out
    assert done.out.count("ERROR  bounds") == 1
    assert "watched 13 launches of 1 kernel in 3 tests" in done.out
    assert "2 passed, 1 failed, 0 abstained" in done.out


RUN = ("run", "--device", "h200", "--", "pytest", "-q", "-p", "no:cacheprovider")


def test_captures_of_several_streams_behave_as_on_a_gpu(project: Project) -> None:
    project.write("test_streams.py", STREAMS)
    done = project.process(*RUN, "test_streams.py")
    assert "4 passed" in done.out, done.out + done.err
    assert done.status == 0, done.out + done.err


def test_graphs_by_batch_size_share_a_pool(project: Project) -> None:
    project.write("test_serving.py", SERVING)
    done = project.process(*RUN, "test_serving.py")
    assert "3 failed, 5 passed" in done.out, done.out + done.err
    assert "3 findings: 2 errors, 1 warning" in done.out, done.out + done.err
    assert "ERROR  graph-replay  scale_kernel  in test_an_input_that_is_freed_before_the_replay" in done.out
    assert "ERROR  uninitialised-read  scale_kernel  in test_memory_that_another_graph_overwrites_is_lost" in done.out
    assert "uninitialised-read  test_memory_of_a_capture_holds_nothing_before_the_replay" in done.out
    assert done.out.count("captured at") == 2
