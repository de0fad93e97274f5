"""Outputs of candidates reach the referee as they were when the candidate returned."""

from pathlib import Path

import pytest
import torch

from harness.checks import kept_outputs, outputs_keeper
from harness.checks.outputs_keeper import OutputsKeeper

KEY = "0a"


@pytest.mark.parametrize(
    "returned",
    [
        torch.arange(6.0).view(2, 3).t(),
        (torch.ones(2, dtype=torch.bfloat16), torch.zeros(0, 3)),
        (torch.tensor([True, False]),),
        torch.ones(1).expand(1, 1).as_strided((1, 1), (0, 0)),
    ],
)
def test_what_is_sent_is_read(tmp_path: Path, returned: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
    with OutputsKeeper(tmp_path) as keeper:
        kept_outputs.send_outputs(keeper.address, KEY, returned)
    read = kept_outputs.read_outputs(tmp_path, KEY)
    assert isinstance(read, tuple) is isinstance(returned, tuple)
    for got, sent in zip(read, returned, strict=True):
        assert (got.dtype, got.shape) == (sent.dtype, sent.shape)
        assert torch.equal(got, sent)


def test_the_first_outputs_for_a_key_count(tmp_path: Path) -> None:
    with OutputsKeeper(tmp_path) as keeper:
        kept_outputs.send_outputs(keeper.address, KEY, torch.ones(2))
        kept_outputs.send_outputs(keeper.address, KEY, torch.zeros(2))
    assert kept_outputs.read_outputs(tmp_path, KEY).tolist() == [1.0, 1.0]


def test_a_message_that_is_cut_or_names_a_path_is_not_kept(tmp_path: Path) -> None:
    with OutputsKeeper(tmp_path / "kept") as keeper:
        (tmp_path / "kept").mkdir()
        outputs_keeper.send(keeper.address, "../other", b"content")
        with outputs_keeper.connected(keeper.address) as connection:
            connection.sendall(outputs_keeper.HEAD.pack(KEY.encode(), 100) + b"content")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


def test_no_more_is_kept_than_a_check_may_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_keeper, "MOST_BYTES", 10)
    with OutputsKeeper(tmp_path) as keeper:
        for key in ("a", "b", "c"):
            outputs_keeper.send(keeper.address, key, b"12345")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
