"""Tiles of rows for products of experts, as host code of the libraries assigns them."""

import torch


def assigned(experts, count, rows):
    """Return the rows of tiles of one expert each, padded, the experts of the tiles, and the number of rows."""
    flat = experts.flatten().cpu().long()
    order, sizes = flat.argsort(stable=True), torch.bincount(flat, minlength=count)
    tiles = -(-sizes // rows)
    begins = (tiles.cumsum(0) - tiles) * rows
    inside = torch.arange(len(flat)) - (sizes.cumsum(0) - sizes)[flat[order]]
    padded = torch.full((int(tiles.sum()) * rows,), len(flat), dtype=torch.int32)
    padded[begins[flat[order]] + inside] = order.int()
    of_tiles = torch.arange(count).repeat_interleave(tiles).int()
    device = experts.device
    return padded.to(device), of_tiles.to(device), torch.tensor([len(padded)], dtype=torch.int32, device=device)
