"""How much the accuracy of 8 latents depends on where on the circle the first of them lies.

    python benchmarks/latent_rotation.py half_cheetah ant --json benchmarks/results/latent_rotation.json

The prior N(0, I) has no direction of its own, so a rotation of the 8 latents changes nothing about the skills. Where
the location is a line, it changes whether two latents that lie symmetric to the line's direction end in the same place.
"""

import argparse

import numpy as np

from ibol.metrics.locations import nearest_centroid_accuracy
from ibol.skills.latents import RADIUS
from ibol.skills.policy import Skills, load_skills
from report import write_json

DEGREES = (0.0, 7.5, 15.0, 22.5, 30.0, 37.5)  # 45 are 0 again
EPISODES = 50


def accuracy(skills: Skills, degrees: float) -> float:
    """The accuracy of 8 latents that are rotated by an angle."""
    angles = np.deg2rad(degrees + 45.0 * np.arange(8))
    latents = RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ends = skills.rollout(np.repeat(latents, EPISODES, axis=0), seed=999).states[:, -1, list(skills.location_dims)]
    return nearest_centroid_accuracy(ends.reshape(8, EPISODES, -1))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skills", nargs="+", help="run directories or names of bundled skills")
    parser.add_argument("--json", required=True)
    given = parser.parse_args()
    results = []
    for name in given.skills:
        skills = load_skills(name)
        row = {str(degrees): round(accuracy(skills, degrees), 3) for degrees in DEGREES}
        print(name, row)
        results.append({"skills": name, "accuracy": row})
    write_json(given.json, {"episodes": EPISODES, "radius": RADIUS, "seed": 999}, ("mujoco", "jax"), results)


if __name__ == "__main__":
    main()
