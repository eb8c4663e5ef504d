"""Imports MuJoCo, also where MUJOCO_GL names an OpenGL library that is missing or broken.

MuJoCo then fails as a whole. Only films need such a library, and they say in one sentence what is wrong with it.
"""

import importlib
import os


def import_mujoco() -> None:
    """Import it as MUJOCO_GL asks, or else without a library to render with."""
    before = dict(os.environ)
    try:
        importlib.import_module("mujoco")
    except (AttributeError, RuntimeError):
        try:
            for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
                os.environ.pop(name, None)
            importlib.import_module("mujoco")
        finally:
            os.environ.update({name: before[name] for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM") if name in before})


import_mujoco()
