"""A meta-controller by Stable-Baselines3 that chooses skills: run forward, by the environment's own reward.

pip install stable-baselines3
ibol discover half_cheetah
python examples/skills_with_stable_baselines3.py runs/ibol-half_cheetah-fast-seed0
"""

import sys

from stable_baselines3 import SAC

from ibol.skills.env import SkillEnv


def train(run: str, steps: int = 500) -> SAC:
    """Learn which latent to hold for 5 macro steps; an episode has 4 such decisions."""
    model = SAC("MlpPolicy", SkillEnv(run, hold=5), learning_starts=min(100, steps // 2), verbose=1)
    return model.learn(steps, log_interval=10)


if __name__ == "__main__":
    train(*sys.argv[1:2])
