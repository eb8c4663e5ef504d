"""Randomness as a function of (seed, stream, index), so that nothing random has a state to be saved or lost.

A run draws what it needs in epoch `e` from `derive(seed, "rollout", e)`, `derive(seed, "updates", e)` and so on:
a resumed run therefore continues with the very numbers that an uninterrupted one would have drawn.
"""

import zlib

import numpy as np

from ibol.bounds import whole_number


def derive(seed: int, stream: str, index: int = 0) -> int:
    """A 31-bit seed for one use of randomness; different streams and indices are independent."""
    words = [whole_number("seed", seed, 0), zlib.crc32(stream.encode()), index]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def generator(seed: int, stream: str, index: int = 0) -> np.random.Generator:
    """A NumPy generator for one use of randomness."""
    return np.random.default_rng(derive(seed, stream, index))
