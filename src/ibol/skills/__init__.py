"""Skills: what skill discovery leaves, ready to use without any training code."""

from ibol.skills.policy import SkillDescription, Skills, load_skills

__all__ = ["SkillDescription", "Skills", "load_skills"]
