"""Robots as data: what describes one (`robot.py`), its model as one harmless text (`model.py`), the description that
users write (`own.py`), and what a run keeps of it (`kept.py`)."""

from ibol.robots.kept import FOLDER, GOAL, KNOWN, admit, keep, known_as, named
from ibol.robots.own import OwnRobot
from ibol.robots.robot import Robot

__all__ = ["FOLDER", "GOAL", "KNOWN", "OwnRobot", "Robot", "admit", "keep", "known_as", "named"]
