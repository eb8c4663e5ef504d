"""MuJoCo and OpenGL: imports the one without the other, and finds a library that can render here.

MuJoCo decides by the variable MUJOCO_GL when it is imported, and fails as a whole where that names a library which is
missing or broken. Only pictures need one. A broken library can spoil the whole process, so each one (EGL, OSMesa, or
GLFW on a display) is tried in a process of its own, and the first that works is used.
"""

import functools
import importlib
import os
import subprocess
import sys
from typing import Any

from ibol import interrupt
from ibol.errors import IbolError

BACKENDS = ("egl", "osmesa", "glfw")
_VARIABLES = ("MUJOCO_GL", "PYOPENGL_PLATFORM")
_INSTALL = "install one, on Debian with 'apt-get install libosmesa6' or 'apt-get install libegl1 libgl1'"
_SECONDS = 60.0
_TRY = """
import sys, importlib, mujoco
context = importlib.import_module(f"mujoco.{sys.argv[1]}").GLContext(16, 16)
context.make_current()
model = mujoco.MjModel.from_xml_string("<mujoco/>")
mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value).free()
context.free()
"""


def import_mujoco() -> None:
    """Import it as MUJOCO_GL asks, or else without a library to render with, as the command line always does.

    There nobody else renders, and to look for GLFW takes a process that does not end with this one.
    """
    before = dict(os.environ)
    if interrupt.COMMAND_LINE:
        os.environ["MUJOCO_GL"] = "disabled"
    try:
        importlib.import_module("mujoco")
    except (AttributeError, RuntimeError):
        for name in _VARIABLES:
            os.environ.pop(name, None)
        importlib.import_module("mujoco")
    finally:
        for name in _VARIABLES:
            os.environ.pop(name, None)
        os.environ.update({name: before[name] for name in _VARIABLES if name in before})


def gl_context(width: int, height: int) -> Any:
    """An OpenGL context of a library that works here, made current."""
    context = importlib.import_module(f"mujoco.{find_backend()}").GLContext(width, height)
    context.make_current()
    return context


def find_backend() -> str:
    """The library to render with: the one that MUJOCO_GL names, or the first that works."""
    return _find_backend(os.environ.get("MUJOCO_GL", "").lower().strip(), "DISPLAY" in os.environ)


@functools.cache
def _find_backend(wanted: str, display: bool) -> str:
    if wanted in ("", *BACKENDS):
        for name in [wanted] if wanted else BACKENDS:
            if (name != "glfw" or display) and _works(name):
                return name
    if wanted:
        raise IbolError(
            f"MUJOCO_GL is {wanted!r}, which cannot render here: unset it to let ibol choose between "
            f"{', '.join(BACKENDS)}, or {_INSTALL}"
        )
    raise IbolError(f"pictures need an OpenGL library, and neither EGL nor OSMesa works here: {_INSTALL}")


def _works(name: str) -> bool:
    """Whether a process of its own can make a rendering context."""
    environment = {key: value for key, value in os.environ.items() if key not in _VARIABLES}
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRY, name], capture_output=True, timeout=_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


import_mujoco()
