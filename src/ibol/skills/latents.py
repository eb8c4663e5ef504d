"""Where the latents of skills come from: the prior p(z), and all that follows from which one it is.

Gaussian: z ~ N(0, I) in R^d, the paper's. OneHot: one of d discrete skills, as a unit vector. Sphere: a direction,
uniform on the unit sphere in R^d.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from jax import Array
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from ibol.bounds import array
from ibol.errors import IbolError
from ibol.nn.distributions import gaussian_log_prob

Latents = NDArray[np.float32]
PriorName = Literal["gaussian", "one_hot", "sphere"]
SHOWN = 8
"""How many latents stand for all of them in figures, films and the accuracy."""
RADIUS = 1.5
"""The length of the Gaussian latents that are shown."""
LATENT_RANGE = 2.0
"""Gaussian latents are chosen from [-2, 2]^d by whatever uses skills."""
COLOUR_SCALE, COLOUR_RANGE = 1.5, 4.0
"""Colours of latents go from -4 to 4: the authors colour a latent before they shrink it by 2/3."""


@dataclass(frozen=True)
class Prior(ABC):
    """p(z) over latents of `dim` dimensions; hashable, so that compiled functions can take it as static."""

    dim: int
    name: ClassVar[PriorName]
    discrete: ClassVar[bool] = False
    """Whether there are finitely many latents, so that there is nothing between two of them."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int) -> Latents:
        """Latents (n, dim)."""

    @abstractmethod
    def sample(self, key: Array, n: int) -> Array:
        """The same inside of compiled functions."""

    @abstractmethod
    def log_prob(self, latents: Array) -> Array:
        """log p(z) for latents (..., dim)."""

    @abstractmethod
    def shown(self) -> Latents:
        """The latents (at most 8, dim) that stand for all of them."""

    @abstractmethod
    def from_box(self, values: NDArray[np.floating], latent_range: float = LATENT_RANGE) -> Latents:
        """Latents (N, dim) for a controller's answers in [-1, 1]^dim."""

    def action_space(self) -> Space[Any]:
        """What chooses a latent as the action of an environment; see `from_action`."""
        return Box(-LATENT_RANGE, LATENT_RANGE, (self.dim,), np.float32)

    def from_action(self, action: ArrayLike) -> Latents:
        """The latent (dim,) for an element of `action_space`."""
        chosen = array("latents", action, self.dim, dtype=np.float32)
        return self.from_box(np.clip(chosen / LATENT_RANGE, -1, 1)[None])[0]

    def plane(self, latents: Latents) -> Latents:
        """Where latents (N, dim) lie in the plane (N, 2) whose places have colours."""
        places = np.zeros((len(latents), 2), np.float32)
        places[:, : min(2, self.dim)] = latents[:, :2]
        return places

    def label(self, latent: Latents) -> str:
        """A latent (dim,) in a few characters."""
        values = ", ".join(f"{round(float(value), 2) + 0.0:g}" for value in latent)
        return f"z = {values}" if self.dim == 1 else f"z = ({values})"


class Gaussian(Prior):
    """N(0, I)."""

    name: ClassVar[PriorName] = "gaussian"

    def draw(self, rng: np.random.Generator, n: int) -> Latents:
        """Latents (n, dim)."""
        return rng.standard_normal((n, self.dim)).astype(np.float32)

    def sample(self, key: Array, n: int) -> Array:
        """The same inside of compiled functions."""
        return jax.random.normal(key, (n, self.dim))

    def log_prob(self, latents: Array) -> Array:
        """The density."""
        return gaussian_log_prob(jnp.zeros_like(latents), jnp.ones_like(latents), latents)

    def shown(self) -> Latents:
        """Eight directions of the first two dimensions; in 1-D eight values from -1.5 to 1.5."""
        return RADIUS * _circle(self.dim)

    def from_box(self, values: NDArray[np.floating], latent_range: float = LATENT_RANGE) -> Latents:
        """The box, scaled."""
        return np.asarray(latent_range * values, np.float32)


class OneHot(Prior):
    """One of `dim` discrete skills, all equally likely, as a unit vector."""

    name: ClassVar[PriorName] = "one_hot"
    discrete: ClassVar[bool] = True

    def draw(self, rng: np.random.Generator, n: int) -> Latents:
        """Latents (n, dim)."""
        return self.vectors(rng.integers(self.dim, size=n))

    def sample(self, key: Array, n: int) -> Array:
        """The same inside of compiled functions."""
        return jnp.eye(self.dim)[jax.random.randint(key, (n,), 0, self.dim)]

    def log_prob(self, latents: Array) -> Array:
        """The probability of each."""
        return jnp.full(latents.shape[:-1], -jnp.log(self.dim))

    def shown(self) -> Latents:
        """Eight, evenly chosen; all of them if there are fewer."""
        return self.vectors(np.linspace(0, self.dim - 1, min(SHOWN, self.dim)).round().astype(int))

    def vectors(self, numbers: Any) -> Latents:
        """The unit vectors (N, dim) of skills with these numbers."""
        return np.eye(self.dim, dtype=np.float32)[numbers]

    def from_box(self, values: NDArray[np.floating], latent_range: float = LATENT_RANGE) -> Latents:
        """The largest value names the skill."""
        return self.vectors(np.argmax(values, axis=-1))

    def action_space(self) -> Space[Any]:
        """The number of a skill."""
        return Discrete(self.dim)

    def from_action(self, action: ArrayLike) -> Latents:
        """The unit vector of a skill's number."""
        if not self.action_space().contains(action):
            raise IbolError(f"skill {action!r} was asked for, but there are 0 to {self.dim - 1}")
        return self.vectors(int(np.asarray(action)))

    def plane(self, latents: Latents) -> Latents:
        """Around a circle."""
        angle = 2 * np.pi * latents.argmax(axis=1) / self.dim
        return (RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(np.float32)

    def label(self, latent: Latents) -> str:
        """The skill's number."""
        return f"skill {int(latent.argmax())}"


class Sphere(Prior):
    """Uniform on the unit sphere of R^dim; for dim 1 the two signs."""

    name: ClassVar[PriorName] = "sphere"

    def draw(self, rng: np.random.Generator, n: int) -> Latents:
        """Latents (n, dim)."""
        return _unit(rng.standard_normal((n, self.dim))).astype(np.float32)

    def sample(self, key: Array, n: int) -> Array:
        """The same inside of compiled functions."""
        drawn = jax.random.normal(key, (n, self.dim))
        return drawn / jnp.linalg.norm(drawn, axis=-1, keepdims=True)

    def log_prob(self, latents: Array) -> Array:
        """The density on the sphere, 1 over its area 2 pi^(d/2) / Gamma(d/2)."""
        half = self.dim / 2
        return jnp.full(latents.shape[:-1], float(gammaln(half)) - np.log(2) - half * np.log(np.pi))

    def shown(self) -> Latents:
        """Eight directions of the first two dimensions; in 1-D the two signs."""
        return np.array([[-1.0], [1.0]], np.float32) if self.dim == 1 else _circle(self.dim)

    def from_box(self, values: NDArray[np.floating], latent_range: float = LATENT_RANGE) -> Latents:
        """The direction of the answer."""
        return _unit(np.asarray(values)).astype(np.float32)

    def plane(self, latents: Latents) -> Latents:
        """As far from the middle as the Gaussian latents that are shown."""
        return RADIUS * super().plane(latents)


PRIORS: dict[PriorName, type[Prior]] = {kind.name: kind for kind in (Gaussian, OneHot, Sphere)}


def _circle(dim: int) -> Latents:
    """Eight unit vectors (8, dim) around the first two dimensions; in 1-D eight values from -1 to 1."""
    chosen = np.zeros((SHOWN, dim), np.float32)
    if dim == 1:
        chosen[:, 0] = np.linspace(-1, 1, SHOWN)
    else:
        angle = np.arange(SHOWN) * 2 * np.pi / SHOWN
        chosen[:, 0], chosen[:, 1] = np.cos(angle), np.sin(angle)
    return chosen


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Vectors (N, dim) of length 1; the zero vector becomes the first axis."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    first = np.eye(vectors.shape[-1])[0]
    return np.where(length > 0, vectors / np.where(length > 0, length, 1.0), first)
