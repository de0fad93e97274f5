"""Suites of libraries that are taken without their extension: every op runs, and known bugs of releases are found."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

LIMIT_S = 300
"""A release is downloaded first."""
STORE = "tl.store(absmax_ptr + block_start_idx + tl.arange(0, PAIRED_SPLIT_NUM_BLOCKS), absmax)"
ABSMAX = f"bounds: quantize_nf4_blockwise_kernel kernels_4bit.py: {STORE}"


def searched(folder: Path, *given: str) -> tuple[int, Any]:
    """Return the exit status of a search, and its report."""
    device = () if "--device" in given else ("--device", "b200")
    settings = (*device, "--seed", "1", "--triage-minutes", "1", "--json", "report.json")
    done = Project(folder).process("fuzz", *given, *settings, limit_s=LIMIT_S)
    return done.status, json.loads((folder / "report.json").read_text(encoding="utf-8"))


def flawed_kernels(report: Any) -> set[str]:
    """Return oracle and kernel of each finding, without the line."""
    return {" ".join(finding["signature"].split()[:2]) for finding in report["findings"]}


@pytest.mark.nightly
def test_the_race_of_vllms_logit_bias_is_found_in_its_sources(tmp_path: Path) -> None:
    given = ("vllm:sampler", "--op", "logit_bias", "--with", "sources:vllm==0.24.0", "--cases", "24")
    status, report = searched(tmp_path, *given)
    assert status == 1
    assert flawed_kernels(report) == {"thread-race: _bias_kernel"}
    assert report["abstained"] == 0


@pytest.mark.nightly
def test_stores_past_the_scales_of_bitsandbytes_are_found(tmp_path: Path) -> None:
    given = ("bitsandbytes:blockwise", "--op", "four_bits_and_back", "--with", "bitsandbytes==0.50.1", "--cases", "12")
    status, report = searched(tmp_path, *given)
    assert status == 1
    assert ABSMAX in {finding["signature"] for finding in report["findings"]}
    assert report["abstained"] == 0


@pytest.mark.nightly
def test_unmasked_loads_of_torchaos_scaled_product_are_found(tmp_path: Path) -> None:
    given = ("torchao:int8_products", "--op", "scaled_product", "--with", "torchao==0.9.0", "--cases", "12")
    status, report = searched(tmp_path, *given)
    assert status == 1
    flawed = flawed_kernels(report)  # what is loaded beyond the rows may also be a wrong value in the end
    assert "bounds: _scaled_int8_mm_kernel" in flawed
    assert {each.partition(" ")[2] for each in flawed} == {"_scaled_int8_mm_kernel"}
    assert report["abstained"] == 0


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("device", "status", "flawed"),
    [("mi300x", 1, {"resources: apply_token_bitmask_inplace_kernel"}), ("h200", 0, set[str]())],
)
def test_too_many_threads_of_xgrammars_mask_show_with_waves_of_64(
    tmp_path: Path, device: str, status: int, flawed: set[str]
) -> None:
    given = ("xgrammar:bitmask", "--op", "all_rows", "--with", "xgrammar==0.1.28", "--cases", "8", "--device", device)
    ended, report = searched(tmp_path, *given)
    assert (ended, flawed_kernels(report)) == (status, flawed)


@pytest.mark.nightly
@pytest.mark.parametrize(("device", "status"), [("mi300x", 1), ("mi350x", 0)])
def test_keys_of_sglang_in_another_format_show_with_gfx942_alone(tmp_path: Path, device: str, status: int) -> None:
    suite = ("sglang:latent_pages", "--op", "stored_keys", "--op", "chosen_keys", "--with", "sglang==0.5.14")
    ended, report = searched(tmp_path, *suite, "--cases", "16", "--device", device)
    assert (ended, report["abstained"]) == (status, 0)


@pytest.mark.nightly
def test_every_op_of_vllms_amd_kernels_runs_on_an_mi300x(tmp_path: Path) -> None:
    given = ("vllm:amd_kernels", "--with", "sources:vllm==0.25.1", "--cases", "24", "--device", "mi300x")
    _, report = searched(tmp_path, *given)
    ran = {row["op"].rpartition(":")[2] for row in report["op_checks"] if row["passed"]}
    assert ran == {
        "gathered_from_cache",
        "joined_prefixes",
        "product_with_four_bits",
        "rotated_back",
        "stored_in_shuffled_cache",
        "through_indexer_cache",
    }


@pytest.mark.nightly
def test_every_op_of_sglangs_amd_kernels_runs_on_an_mi350x(tmp_path: Path) -> None:
    given = ("sglang:amd_kernels", "--with", "sglang==0.5.23", "--cases", "32", "--device", "mi350x")
    _, report = searched(tmp_path, *given)
    ran = {row["op"].rpartition(":")[2] for row in report["op_checks"] if row["passed"]}
    assert ran == {
        "attention_over_residuals",
        "clamped_gate",
        "indices_within_lengths",
        "joined_splits",
        "pages_of_requests",
        "router_gate",
        "router_product",
        "upscaled_rows",
    }


@pytest.mark.nightly
def test_every_op_of_xformers_runs_from_its_sources(tmp_path: Path) -> None:
    _, report = searched(tmp_path, "xformers", "--with", "sources:xformers==0.0.33", "--cases", "20")
    ran = {row["op"].rpartition(":")[2] for row in report["op_checks"] if row["passed"] + row["failed"]}
    ops = {"rms_norm", "sum_and_rms_norm", "scaled_rows_added", "rows_of_two_selected", "rope_padded"}
    assert (ran, report["abstained"]) == (ops, 0)


@pytest.mark.nightly
def test_operators_of_flag_gems_run_forward_and_backward(tmp_path: Path) -> None:
    libraries = ("--with", "flag-gems==5.0.2", "--with", "sqlalchemy==2.0.48")
    ops = ("add", "nn_functional_gelu", "softmax", "sum")
    _, report = searched(
        tmp_path, "flag_gems", *(part for op in ops for part in ("--op", op)), *libraries, "--cases", "16"
    )
    ran = {row["op"].rpartition(":")[2] for row in report["op_checks"] if row["passed"] + row["failed"]}
    assert (ran, report["abstained"]) == (set(ops), 0)
