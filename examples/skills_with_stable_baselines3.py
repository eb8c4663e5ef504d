"""A meta-controller by Stable-Baselines3 that chooses skills: run forward, by the environment's own reward.

pip install ibol stable-baselines3
python examples/skills_with_stable_baselines3.py half_cheetah     # bundled skills, or a run of 'ibol discover'
"""

import sys

from stable_baselines3 import SAC

from ibol.skills.env import SkillEnv


def train(skills: str = "half_cheetah", steps: int = 500, seed: int = 0) -> SAC:
    """Learn which latent to hold for 5 macro steps; an episode of HalfCheetah has 4 such decisions."""
    env = SkillEnv(skills, hold=5)
    model = SAC("MlpPolicy", env, learning_starts=min(100, steps // 2), seed=seed, device="cpu", verbose=1)
    return model.learn(steps, log_interval=10)


if __name__ == "__main__":
    train(*sys.argv[1:2])
