"""Zoo: random numbers.  Definitions compute Philox 4x32-10 (Salmon et al., 2011) in integers of NumPy."""

import numpy as np

from harness.suite import DType, beside, integers, op, tensor, tokens, width

KERNELS = "kernels/philox.py"
DIMS = {"T": tokens(256, grows=False), "D": width(256)}
SEED = integers("1", high=2**31 - 1)
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
WORD = np.uint64(0xFFFFFFFF)
TO_UNIT = np.float32(4.6566127342e-10)
"""Triton's factor from 31 bits to the unit interval."""


@op(dims=DIMS, inputs={"x": tensor("T", "D"), "seed": SEED}, options={"p": (0.1, 0.5)})
def dropout(x, seed, p):
    return beside(__file__, KERNELS).dropout(x, seed, p)


@dropout.reference
def dropout_reference(x, seed, p):
    import torch

    kept = torch.from_numpy(uniform(philox(seed, x.numel())[0]) > np.float32(p)).reshape(x.shape)
    return x * kept / (1 - p), kept.to(torch.int8)


@op(
    dims=DIMS,
    inputs={"x": tensor("T", "D", grad=False), "seed": SEED},
    options={"sigma": (1.0, 1e-2)},
)
def gaussian_noise(x, seed, sigma):
    return beside(__file__, KERNELS).noise(x, seed, sigma)


@gaussian_noise.reference
def gaussian_noise_reference(x, seed, sigma):
    """By Box and Muller, from two uniform numbers."""
    import torch

    first, second = (
        torch.from_numpy(uniform(word)).to(x.dtype).reshape(x.shape) for word in philox(seed, x.numel())[:2]
    )
    radius = (-2 * first.clamp(min=1e-7).log()).sqrt()
    return x + sigma * radius * (2 * torch.pi * second).cos()


@op(
    dims=DIMS,
    inputs={"x": tensor("T", "D", grad=False), "seed": SEED},
    options={"output_dtype": ("bfloat16",)},
    dtypes=(DType.FP32,),
)
def stochastic_rounding(x, seed):
    return beside(__file__, KERNELS).round_stochastically(x, seed)


@stochastic_rounding.reference
def stochastic_rounding_reference(x, seed):
    """Add 16 random bits below those of bfloat16, and cut off."""
    import torch

    bits = x.detach().to(torch.float32).contiguous().numpy().view(np.uint32)
    random = (philox(seed, x.numel())[0] & np.uint64(0xFFFF)).astype(np.uint32).reshape(bits.shape)
    return torch.from_numpy(((bits + random) & np.uint32(0xFFFF0000)).view(np.float32)).to(x.dtype)


def philox(seed, count):
    """Return the four words of ten rounds for the counters 0 to count - 1, with the seed as the key."""
    key = [np.uint64(int(seed) & 0xFFFFFFFF), np.uint64(int(seed) >> 32)]
    words = [np.arange(count, dtype=np.uint64), *(np.zeros(count, dtype=np.uint64) for _ in range(3))]
    for _ in range(10):
        left, right = (np.uint64(multiplier) * word for multiplier, word in zip(MULTIPLIERS, words[::2], strict=True))
        words = [
            (right >> np.uint64(32)) ^ words[1] ^ key[0],
            right & WORD,
            (left >> np.uint64(32)) ^ words[3] ^ key[1],
            left & WORD,
        ]
        key = [(word + np.uint64(step)) & WORD for word, step in zip(key, WEYL, strict=True)]
    return words


def uniform(words):
    """Return 32-bit words as numbers of the unit interval, in float32 as Triton does."""
    signed = words.astype(np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * TO_UNIT
