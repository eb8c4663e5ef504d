"""Exploration noise that is correlated over time."""

import numpy as np
from numpy.typing import NDArray


def colored_noise(rng: np.random.Generator, shape: tuple[int, ...], color: float) -> NDArray[np.float32]:
    """Gaussian noise over the first axis whose power falls with frequency as f^-color, with a variance of 1.

    A mean over all of time (frequency 0) has the power of the lowest frequency that is left, so that it is random, too.
    """
    steps = shape[0]
    frequencies = np.fft.rfftfreq(steps)
    if steps < 2:
        return rng.standard_normal(shape, np.float32)
    frequencies[0] = frequencies[1]
    amplitudes = frequencies ** (-color / 2)
    weights = np.full(len(amplitudes), 2.0)  # a frequency between the ends stands for itself and its negative
    weights[0] = 1.0
    if steps % 2 == 0:
        weights[-1] = 1.0
    amplitudes /= np.sqrt((weights * amplitudes**2).sum() / steps)
    white = np.fft.rfft(rng.standard_normal(shape), axis=0)
    shaped = white * amplitudes.reshape(-1, *[1] * (len(shape) - 1))
    return np.asarray(np.fft.irfft(shaped, n=steps, axis=0), np.float32)
