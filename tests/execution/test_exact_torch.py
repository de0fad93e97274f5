"""The exact values of what torch computes, for each rule."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.engines.torch.cpu_tensors import CpuTensors
from harness.execution.exact_memory import ExactMemory
from harness.execution.exact_torch import ExactTorch

F64, F32, F16, BF16, F8 = torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn


@pytest.fixture
def memory() -> ExactMemory:
    return ExactMemory()


def bf16(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=BF16)


def normal(*shape: int, dtype: torch.dtype = BF16, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(exact: torch.Tensor, truth: torch.Tensor) -> bool:
    return torch.allclose(exact, truth, rtol=1e-12, atol=1e-14)


def test_a_sum_in_bfloat16_has_its_float64_sum(memory: ExactMemory) -> None:
    numbers = normal(1000)
    with ExactTorch(memory):
        total = numbers.sum()
    assert close(memory.read(total), numbers.double().sum())
    assert float(total) != float(memory.read(total))


def test_a_cast_keeps_the_digits_that_the_real_value_loses(memory: ExactMemory) -> None:
    third = torch.tensor([1.0]) / 3
    with ExactTorch(memory):
        wide = torch.ones(1, dtype=F32) / 3
        narrow = wide.to(BF16).float()
    assert float(memory.read(narrow)) == 1 / 3
    assert float(narrow) == float(third.to(BF16))


def test_real_values_stay_as_they_are_bit_for_bit(memory: ExactMemory) -> None:
    x, w = normal(8, 16), normal(16, 4, seed=1)

    def computed() -> torch.Tensor:
        return (torch.softmax(x @ w, -1) * 0.1 + x[:, :4]).cumsum(0)

    with ExactTorch(memory):
        followed = computed()
    assert torch.equal(followed, computed())


def test_an_in_place_sum_is_followed(memory: ExactMemory) -> None:
    x = bf16(1, 1)
    with ExactTorch(memory):
        x.add_(0.001)
        x[1].mul_(3)
    assert memory.read(x).tolist() == [1.001, 1.001 * 3]
    assert x.tolist() == [1.0, 3.0]


def test_a_result_in_an_out_tensor_is_followed(memory: ExactMemory) -> None:
    out, grown = torch.zeros(2, 2, dtype=BF16), torch.empty(0, dtype=BF16)
    with ExactTorch(memory):
        torch.add(bf16(1, 2), 0.001, out=out[0])
        torch.add(bf16(1, 2), 0.001, out=grown.resize_(2))
    assert memory.read(out).tolist() == [[1.001, 2.001], [0, 0]]
    assert memory.read(grown).tolist() == [1.001, 2.001]


def test_exact_values_are_seen_through_views(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        x = torch.ones(2, 3, dtype=BF16)
        x.t()[1].add_(0.001)
        row = x.reshape(6)[3:]
        copy = x.t().contiguous()
    assert memory.read(row).tolist() == [1, 1.001, 1]
    assert memory.read(copy)[1].tolist() == [1.001, 1.001]


def test_no_address_holds_two_tensors_within_a_case(memory: ExactMemory) -> None:
    makers: list[Callable[[], torch.Tensor]] = [
        lambda: torch.zeros(1000, dtype=BF16),
        lambda: torch.empty(1000, dtype=BF16).fill_(0),
        lambda: torch.tensor([0.0] * 1000, dtype=BF16),
        lambda: torch.zeros(1000, dtype=torch.int16).view(BF16),
    ]
    with ExactTorch(memory):
        for make in makers:
            old = [torch.zeros(1000, dtype=BF16) + 1e-50 for _ in range(20)]
            addresses = {one.data_ptr() for one in old}
            old.clear()
            new = [make() for _ in range(20)]
            assert not addresses & {one.data_ptr() for one in new}
            assert all(memory.read(one).tolist() == [0.0] * 1000 for one in new)


def test_a_constant_is_exact_before_it_is_rounded(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        tenth = torch.full((2,), 0.1, dtype=BF16)
        steps = torch.arange(0, 1, 0.3, dtype=BF16)
    assert memory.read(tenth).tolist() == [0.1, 0.1]
    assert close(memory.read(steps), torch.arange(0, 1, 0.3, dtype=F64))


def test_integers_become_exact_numbers(memory: ExactMemory) -> None:
    numbers = torch.tensor([1, 257])
    with ExactTorch(memory):
        cast, third = numbers.to(BF16), numbers / 3
        mean = numbers.sum(dtype=F32) / 2
    assert memory.read(cast).tolist() == [1, 257]
    assert memory.read(third).tolist() == [1 / 3, 257 / 3]
    assert float(memory.read(mean)) == 129
    assert (third.dtype, torch.get_default_dtype()) == (F32, F32)


def test_a_comparison_that_rounding_decides_is_a_doubt(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        mask = bf16(1) + 0.001 > 1
    assert not mask
    assert list(memory.doubts) == ["aten.gt decides by rounding"]


def test_a_comparison_that_rounding_leaves_is_no_doubt(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        kept = torch.where(bf16(1) + 0.001 > 0.5, 1.0, 0.0)
    assert (kept.tolist(), list(memory.doubts)) == ([1.0], [])


def test_a_floor_that_rounding_moves_is_a_doubt(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        moved = torch.floor(bf16(2) - 0.001)
        torch.floor(bf16(2) + 0.25)
    assert (moved.item(), memory.read(moved).item()) == (2, 1)
    assert list(memory.doubts) == ["aten.floor decides by rounding"]


def test_a_jump_that_rounding_decides_is_a_doubt(memory: ExactMemory) -> None:
    x = bf16(1).requires_grad_()
    with ExactTorch(memory):
        torch.relu((x + 0.001) - 1).sum().backward()
    assert list(memory.doubts) == ["aten.threshold_backward decides by rounding"]


def test_a_cast_to_integers_that_rounding_moves_is_a_doubt(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        (bf16(2.5) - 0.001).int()
    assert not memory.doubts
    with ExactTorch(memory):
        (bf16(2) - 0.001).int()
    assert list(memory.doubts) == ["aten._to_copy rounds otherwise to integers"]


def test_a_cast_to_8_bits_makes_exact_values_unknown(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        wide = bf16(1.2, 3).to(F8).float()
    assert memory.read(wide).isnan().all()
    assert list(memory.doubts) == ["aten._to_copy cannot be followed"]


def test_the_bits_of_a_number_are_a_doubt(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        torch.ones(2).view(torch.int32)
        torch.ones(2).view(1, 2)
    assert list(memory.doubts) == ["aten.view takes the bits of numbers"]


def test_a_number_that_leaves_torch_rounded_is_a_doubt(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        bf16(1).item()
    assert not memory.doubts
    with ExactTorch(memory):
        (bf16(1) + 0.001).item()
    assert list(memory.doubts) == ["aten._local_scalar_dense gives a rounded number"]


@pytest.mark.parametrize("pick", [lambda x: x.topk(2), lambda x: x.sort(), lambda x: x.max(-1), lambda x: x.cummax(-1)])
def test_selected_elements_are_exact_at_the_real_indices(memory: ExactMemory, pick: Callable[..., Any]) -> None:
    numbers = normal(3, 50).float()
    with ExactTorch(memory):
        x = numbers / 3
        values, indices = pick(x)
    truth = memory.read(x)
    assert torch.equal(memory.read(values), truth.gather(1, indices.view(3, -1)).view_as(values))
    assert not memory.doubts


def test_a_selection_among_numbers_that_rounding_made_equal_is_a_doubt(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        x = bf16(1, 1) + torch.tensor([0, 0.001])
        value, index = x.to(BF16).topk(1)
    assert (float(memory.read(value)), int(index)) in {(1.0, 0), (float(torch.tensor(0.001)) + 1, 1)}
    assert int(index) == 1 or list(memory.doubts) == ["aten.topk selects by rounding"]


def test_pooled_elements_are_exact_at_the_real_indices(memory: ExactMemory) -> None:
    numbers = normal(2, 3, 8, 8).float()
    with ExactTorch(memory):
        x = numbers / 3
        pooled = torch.nn.functional.max_pool2d(x, 2)
    assert torch.equal(memory.read(pooled), torch.nn.functional.max_pool2d(memory.read(x), 2))
    assert not memory.doubts


@pytest.mark.parametrize("drop", [torch.nn.functional.dropout, lambda x, p: torch.native_dropout(x, p, train=True)[0]])
def test_dropout_keeps_the_elements_that_were_drawn(memory: ExactMemory, drop: Callable[..., Any]) -> None:
    x = normal(100)
    torch.manual_seed(3)
    plain = drop(x, 0.3)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    with ExactTorch(memory):
        dropped = drop(x, 0.3)
    assert torch.equal(dropped, plain)
    assert torch.equal(torch.get_rng_state(), state)
    assert close(memory.read(dropped), x.double() * (plain != 0) / 0.7)
    assert not memory.doubts


def test_a_draw_from_computed_numbers_is_unknown(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        torch.rand(3)
        torch.empty(3).normal_()
        drawn = torch.normal(normal(3).float(), 1.0)
    assert memory.read(drawn).isnan().all()
    assert list(memory.doubts) == ["aten.normal cannot be followed"]


def test_an_operator_without_float64_is_unknown(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        product = torch.ops.aten._weight_int4pack_mm_for_cpu(
            normal(1, 32), torch.zeros(16, 16, dtype=torch.uint8), 32, torch.ones(1, 16, 2, dtype=BF16)
        )
    assert memory.read(product).isnan().all()
    assert list(memory.doubts) == ["aten._weight_int4pack_mm_for_cpu cannot be followed"]


def test_a_gradient_that_is_not_wanted_is_no_doubt(memory: ExactMemory) -> None:
    x, weight, bias = normal(1, 1, 4).requires_grad_(), normal(1, 1, 4, seed=1), normal(1, seed=2).requires_grad_()
    with ExactTorch(memory):
        y = torch.nn.functional.conv_transpose1d(x, weight, bias, padding=2, output_padding=1, stride=2, dilation=3)
        y.sum().backward()  # torch computes the weight's gradient too
    assert x.grad is not None
    assert not memory.read(x.grad).isnan().any()
    assert not memory.doubts


def test_complex_numbers_are_followed(memory: ExactMemory) -> None:
    x = normal(8).float().requires_grad_()
    truth = x.detach().double().requires_grad_()
    torch.fft.fft(truth).abs().sum().backward()
    with ExactTorch(memory):
        size = torch.fft.fft(x).abs().sum()
        size.backward()
    assert close(memory.read(size.detach()), torch.fft.fft(truth.detach()).abs().sum())
    assert x.grad is not None
    assert truth.grad is not None
    assert close(memory.read(x.grad), truth.grad)
    assert not memory.doubts


def test_conjugates_are_followed(memory: ExactMemory) -> None:
    x = normal(8).float()
    with ExactTorch(memory):
        y = torch.fft.hfft(torch.fft.fft(x / 3).conj().clone())
    assert close(memory.read(y), torch.fft.hfft(torch.fft.fft(x.double() / 3).conj()))
    assert not memory.doubts


def test_zeros_without_memory_are_followed(memory: ExactMemory) -> None:
    x = bf16(1, 2).requires_grad_()
    with ExactTorch(memory):
        torch.sgn(x + 0.25).sum().backward()
    assert x.grad is not None
    assert memory.read(x.grad).tolist() == [0, 0]


def test_a_copy_by_strides_depends_on_the_storage(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        x = torch.full((2, 2), 0.1, dtype=BF16)
        copy = torch.as_strided_copy(x, (2,), (2,))
        view = torch.as_strided(x, (2,), (2,))
        x.squeeze_().transpose_(0, 1)
    assert memory.read(copy).isnan().all()
    assert memory.read(view).tolist() == memory.read(x)[0].tolist() == [0.1, 0.1]
    assert list(memory.doubts) == ["aten.as_strided_copy cannot be followed"]


def test_an_unknown_number_stays_unknown_where_nan_is_replaced(memory: ExactMemory) -> None:
    x = torch.ones(2)
    memory.write(x, torch.tensor([1.0, float("nan")], dtype=F64))
    with ExactTorch(memory):
        y = torch.nan_to_num(x)
    assert memory.read(y).isnan().all()
    assert list(memory.doubts) == ["aten.nan_to_num cannot be followed"]


class Small(torch.nn.Module):
    """A network of the usual layers."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.LayerNorm(16)
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 16)
        self.batch = torch.nn.BatchNorm1d(16)
        self.to(BF16).to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        x = x + self.second(torch.nn.functional.silu(self.first(x)))
        x = torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])[0, 0]
        return torch.log_softmax(self.batch(x), -1)


def test_gradients_of_a_network_are_those_in_float64(memory: ExactMemory) -> None:
    real, exact = Small(BF16), Small(F64)
    x = normal(6, 16)
    ours, truth = x.clone().requires_grad_(), x.double().requires_grad_()
    loss = -exact(truth)[:, 0].mean()
    loss.backward()
    with ExactTorch(memory):
        followed = -real(ours)[:, 0].mean()
        followed.backward()
    assert close(memory.read(followed), loss.detach())
    assert ours.grad is not None
    assert truth.grad is not None
    assert close(memory.read(ours.grad), truth.grad)
    for one, other in zip(real.parameters(), exact.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert close(memory.read(one.grad), other.grad)
    assert real.batch.running_var is not None
    assert exact.batch.running_var is not None
    assert close(memory.read(real.batch.running_var), exact.batch.running_var)
    assert not memory.doubts


def test_an_optimizer_step_on_lists_of_tensors_is_followed(memory: ExactMemory) -> None:
    weights = [bf16(1, 2), bf16(3)]
    with ExactTorch(memory):
        torch.ops.aten._foreach_mul_(weights, 1.001)
        new = torch.ops.aten._foreach_add(weights, 1e-5)
    assert [memory.read(one).tolist() for one in weights] == [[1.001, 2.002], [3 * 1.001]]
    assert close(memory.read(new[1]), torch.tensor([3 * 1.001 + 1e-5], dtype=F64))


def test_operators_without_autograd_are_followed_inside(memory: ExactMemory) -> None:
    x, w = normal(4, 8), normal(3, 8, seed=1)
    with torch.inference_mode(), ExactTorch(memory):
        y = torch.nn.functional.linear(x, w).reshape(12).float()
        z = torch.nn.functional.dropout(y, 0.0)
    assert close(memory.read(z), (x.double() @ w.double().t()).reshape(12))
    assert not memory.doubts


@torch.library.custom_op("harness_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x.mul(by).add(1)


def test_the_operators_inside_an_operator_of_a_library_are_followed(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        y = scaled(bf16(1, 2), 0.1)
    assert memory.read(y).tolist() == [1.1, 1.2]


def test_tensors_that_look_like_cuda_tensors_are_followed(memory: ExactMemory) -> None:
    x = bf16(1, 2).requires_grad_()
    with CpuTensors(), ExactTorch(memory):
        y = (x.to("cuda") + torch.full((2,), 0.1, device="cuda", dtype=BF16)).square()
        torch.autograd.backward(y.sum())
    assert close(memory.read(y.detach()), torch.tensor([1.1**2, 2.1**2], dtype=F64))
    assert x.grad is not None
    assert close(memory.read(x.grad), torch.tensor([2.2, 4.2], dtype=F64))


def test_tensors_without_memory_are_left_alone(memory: ExactMemory) -> None:
    with ExactTorch(memory):
        x = torch.full((2,), 0.1, device="meta")
        x.add_(1).sum()
    assert not memory.doubts


def test_following_a_small_operator_costs_less_than_a_millisecond(memory: ExactMemory) -> None:
    x = normal(64)
    with ExactTorch(memory):
        x.add(x)
        began = time.process_time()
        for _ in range(200):
            x.add(x)
        took = time.process_time() - began
    assert took / 200 < 1e-3
