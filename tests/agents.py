"""Skills with random weights and linearizers in all kinds, and states to act in, for the tests of what is exported."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray

import ibol
from ibol.envs import sizes
from ibol.envs.settings import EnvSettings
from ibol.learners.normalizer import Normalizer, load_normalizer
from ibol.linearizer.policy import Linearizer, bundled
from ibol.skills.policy import SkillDescription, Skills

LINEARIZERS = [f"{env}:{seed}" for env, seeds in bundled().items() for seed in seeds]

# Every head, prior, distortion and frame, with and without linearizer and layer norm.
SKILLS: dict[str, dict[str, Any]] = {
    "point": {"env": "point"},
    "point, one-hot": {"env": "point", "prior": "one_hot", "latent_dim": 5},
    "point, tanh-Gaussian, layer norm": {"env": "point", "policy": "tanh_gaussian", "layer_norm": True},
    "ant": {"env": "ant", "linearizer": "ant:0"},
    "ant, squeezed": {"env": "ant", "linearizer": "ant:1", "distortion": "squeeze_y"},
    "ant, no linearizer, sphere": {"env": "ant", "prior": "sphere", "latent_dim": 3, "layer_norm": True},
    "half_cheetah, tanh-Gaussian": {"env": "half_cheetah", "linearizer": "half_cheetah:0", "policy": "tanh_gaussian"},
    "hopper, all of the state": {"env": "hopper", "linearizer": "hopper:0", "omitted": ()},
    "humanoid": {"env": "humanoid", "linearizer": "humanoid:0"},
    "dkitty, layer norm": {"env": "dkitty", "linearizer": "dkitty:0", "layer_norm": True},
}


def make_skills(
    env: str, linearizer: str | None = None, latent_dim: int = 2, seed: int = 0, **described: Any
) -> Skills:
    """Skills that answer diversely: as first weights are small, the heads' are made 3 times larger."""
    below = None if linearizer is None else ibol.load_linearizer(linearizer)
    state_dim, action_dim = sizes(made := ibol.make(env, 1))
    location_dims = tuple(made.location_dims)
    description = SkillDescription(
        env=env,
        env_settings=EnvSettings(),
        state_dim=state_dim,
        action_dim=action_dim if below is None else below.goal_dim,
        latent_dim=latent_dim,
        location_dims=location_dims,
        linearized=below is not None,
        hidden=(32, 24),
        **{"omitted": location_dims, **described},
    )
    network = description.policy_template()
    network = eqx.tree_at(
        lambda policy: policy.network.heads, network, jax.tree.map(lambda leaf: 3 * leaf, network.network.heads)
    )
    keys = iter(jax.random.split(jax.random.key(seed), 100))
    network = jax.tree.map(
        lambda leaf: leaf + 0.2 * jax.random.normal(next(keys), leaf.shape) if leaf.ndim == 1 else leaf, network
    )
    normalizer = load_normalizer(env)
    if normalizer is None:
        normalizer = Normalizer.of(np.full(state_dim, 0.3), np.full(state_dim, 0.7))
    return Skills(description, network, normalizer, below)


def random_states(agent: Skills | Linearizer, count: int, seed: int = 0) -> NDArray[np.float32]:
    """States (count, n) as random actions visit them, 2 times as spread out, with any heading."""
    rng, normalizer = np.random.default_rng(seed), agent.normalizer
    states = normalizer.mean + 2 * normalizer.std * rng.standard_normal((count, len(normalizer.mean)))
    if agent.env in ("ant", "humanoid"):
        rotations = rng.standard_normal((count, 4))
        states[:, 3:7] = rotations / np.linalg.norm(rotations, axis=1, keepdims=True)
    elif agent.env == "dkitty":
        states[:, 5] = rng.uniform(-np.pi, np.pi, count)
    return states.astype(np.float32)


def random_goals(linearizer: Linearizer, count: int, seed: int = 0) -> NDArray[np.float32]:
    """Goals (count, k) in all directions."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (count, linearizer.goal_dim)).astype(np.float32)
