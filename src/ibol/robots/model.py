"""A robot's model as one text that needs no other file, and the check that such a text is harmless.

What a run keeps of a robot comes from anybody, so MuJoCo gets only a text that `check_text` has passed: elements of a
list, none of which names a file, a directory or a plugin. `self_contained` makes such a text of anybody's own model:
included files, meshes and height fields become part of it, textures from files are left out.
"""

import ctypes
import functools
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from ibol.errors import IbolError

MOST_TEXT = 2**25  # bytes of a model
_MOST_ELEMENTS, _MOST_DEPTH = 100_000, 100
_MOST_VALUES = 2**24  # of a height field or a texture
_ELEMENTS = frozenset(
    [
        "mujoco",
        "compiler",
        "option",
        "flag",
        "size",
        "visual",
        "global",
        "quality",
        "headlight",
        "map",
        "scale",
        "rgba",
        "statistic",
        "default",
        "asset",
        "mesh",
        "hfield",
        "texture",
        "material",
        "worldbody",
        "body",
        "joint",
        "freejoint",
        "geom",
        "site",
        "camera",
        "light",
        "inertial",
        "contact",
        "pair",
        "exclude",
        "equality",
        "connect",
        "weld",
        "tendon",
        "fixed",
        "spatial",
        "pulley",
        "actuator",
        "motor",
        "position",
        "velocity",
        "intvelocity",
        "damper",
        "cylinder",
        "muscle",
        "general",
        "adhesion",
        "sensor",
        "touch",
        "accelerometer",
        "velocimeter",
        "gyro",
        "force",
        "torque",
        "magnetometer",
        "rangefinder",
        "jointpos",
        "jointvel",
        "tendonpos",
        "tendonvel",
        "actuatorpos",
        "actuatorvel",
        "actuatorfrc",
        "jointactuatorfrc",
        "ballquat",
        "ballangvel",
        "framepos",
        "framequat",
        "framexaxis",
        "frameyaxis",
        "framezaxis",
        "framelinvel",
        "frameangvel",
        "framelinacc",
        "frameangacc",
        "subtreecom",
        "subtreelinvel",
        "subtreeangmom",
        "clock",
    ]
)
_FILES = ("file", "plugin", "instance", "model", "content_type")  # how attributes begin or end that lead elsewhere
_DIRECTORIES = ("meshdir", "texturedir", "assetdir")
_SIZES = {"njmax": 100_000, "nconmax": 100_000, "nkey": 1000, "nuserdata": 10_000, "nstack": 2**27}


@contextmanager
def quiet_mujoco() -> Iterator[None]:
    """Keep MuJoCo from writing MUJOCO_LOG.TXT and to the terminal: we report what goes wrong ourselves."""
    before, silent = mujoco.MjLogConfig.get(), mujoco.MjLogConfig.get()
    silent.logto_file = False
    silent.logto_console = False
    silent.set()
    try:
        yield
    finally:
        before.set()


@contextmanager
def untimed_mujoco() -> Iterator[None]:
    """Keep MuJoCo from reading the clock in each of its functions, for statistics that nobody sees here."""
    clock = _clock()
    before = clock.value
    clock.value = None
    try:
        yield
    finally:
        clock.value = before


@functools.cache
def _clock() -> Any:
    """MuJoCo's pointer to the function that tells the time; `mujoco.set_mjcb_time(None)` leaves it as it is."""
    for library in sorted(Path(mujoco.__file__).parent.glob("*mujoco*")):
        if library.suffix in (".dll", ".dylib") or ".so" in library.suffixes[:1]:
            return ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time")
    return ctypes.c_void_p()  # a build without the library beside it: there, nothing is changed


def compiled(text: str, source: str) -> Any:
    """The `mujoco.MjModel` of a text that `check_text` has passed."""
    with quiet_mujoco():
        try:
            return mujoco.MjModel.from_xml_string(text)
        except (ValueError, mujoco.FatalError) as error:
            raise IbolError(f"MuJoCo cannot read the model {source}: {first_line(error)}") from None


def check_text(text: str, source: str) -> None:
    """Refuse the text of a model that could read a file or load code, or that is far larger than any robot."""
    if len(text) > MOST_TEXT:
        raise IbolError(f"the model {source} has {len(text) / 1e6:.0f} MB, but at most {MOST_TEXT / 1e6:.0f} are read")
    if "<!" in text.replace("<!--", "") or "<?" in text.removeprefix("<?xml"):
        raise IbolError(f"the model {source} has XML declarations, which no robot needs: it is not read")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, RecursionError, ValueError) as error:
        raise IbolError(f"the model {source} is not valid XML ({error})") from None
    if root.tag != "mujoco":
        raise IbolError(f"the model {source} is a <{root.tag!s:.40}>, but a <mujoco> of one text is needed")
    waiting, count = [(root, 1)], 0
    while waiting:
        element, depth = waiting.pop()
        count += 1
        if depth > _MOST_DEPTH or count > _MOST_ELEMENTS:
            raise IbolError(f"the model {source} has more elements than any robot: it is not read")
        _check_element(element, source)
        waiting += [(child, depth + 1) for child in element]


def _check_element(element: Any, source: str) -> None:
    if element.tag not in _ELEMENTS:
        raise IbolError(
            f"the model {source} has <{element.tag!s:.40}>, which a kept robot may not have: files, plugins, flexible "
            "parts and custom elements are not read"
        )
    for name, value in element.attrib.items():
        leads_elsewhere = name in _DIRECTORIES or any(name.startswith(word) or name.endswith(word) for word in _FILES)
        if leads_elsewhere and not (element.tag == "mujoco" and name == "model"):
            raise IbolError(
                f"the model {source} has {name}={value!r:.60} in <{element.tag}>, but a kept robot is one text: files, "
                "directories and plugins are not read"
            )
        if name in _SIZES and _number(value) > _SIZES[name]:
            raise IbolError(f"the model {source} has {name} {value:.20}, but at most {_SIZES[name]} is allowed")
        if element.tag == "size" and name == "memory":
            raise IbolError(f"the model {source} has memory {value:.20}, which is more than any robot needs")
    for pair in (("nrow", "ncol"), ("width", "height")):
        if element.tag in ("hfield", "texture") and np.prod([_number(element.get(name, "1")) for name in pair]) > (
            _MOST_VALUES
        ):
            raise IbolError(f"the model {source} has a <{element.tag}> with more than {_MOST_VALUES} values")


def _number(text: str) -> float:
    try:
        return abs(float(text))
    except ValueError:
        return np.inf


def first_line(error: Exception) -> str:
    """What MuJoCo says, as one line."""
    return " ".join(str(error).split())[:300]


def read_spec(path: Path) -> Any:
    """The `mujoco.MjSpec` of a user's own file, MJCF or URDF."""
    if not path.is_file():
        raise IbolError(f"there is no model {path}: 'model' is the path of an MJCF or URDF file beside the description")
    with quiet_mujoco():
        try:
            return mujoco.MjSpec.from_file(str(path))
        except (ValueError, mujoco.FatalError) as error:
            raise IbolError(f"MuJoCo cannot read the model {path}: {first_line(error)}") from None


def self_contained(spec: Any, source: str) -> str:
    """The text of an MJCF file that needs no other file; changes `spec`."""
    if spec.plugins or spec.flexes:
        kind = "plugins" if spec.plugins else "flexible parts"
        raise IbolError(f"the model {source} has {kind}, which are not supported")
    with quiet_mujoco():
        try:
            model = spec.compile()
            _put_meshes_in(spec, model)
            _put_fields_in(spec, model)
            _drop(spec)
            spec.compile()
            text = str(spec.to_xml())
        except (ValueError, mujoco.FatalError) as error:
            raise IbolError(f"MuJoCo cannot read the model {source}: {first_line(error)}") from None
    check_text(text, source)
    return text


def _put_meshes_in(spec: Any, model: Any) -> None:
    """Vertices and faces of meshes in the place of their files."""
    for i, mesh in enumerate(spec.meshes):
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, model.mesh_quat[i])
        first, count = model.mesh_vertadr[i], model.mesh_vertnum[i]
        places = model.mesh_vert[first : first + count].astype(np.float64) @ turn.reshape(3, 3).T + model.mesh_pos[i]
        first, count = model.mesh_faceadr[i], model.mesh_facenum[i]
        name = mesh.name or Path(mesh.file).stem
        mesh.name, mesh.file = name, ""
        mesh.scale, mesh.refpos, mesh.refquat = [1, 1, 1], [0, 0, 0], [1, 0, 0, 0]
        mesh.uservert, mesh.userface = places.ravel(), model.mesh_face[first : first + count].ravel()
        mesh.usernormal, mesh.usertexcoord = [], []
        mesh.userfacenormal, mesh.userfacetexcoord = [], []


def _put_fields_in(spec: Any, model: Any) -> None:
    """Heights in the place of their files."""
    for i, field in enumerate(spec.hfields):
        rows, columns, first = int(model.hfield_nrow[i]), int(model.hfield_ncol[i]), int(model.hfield_adr[i])
        field.name = field.name or Path(field.file).stem
        field.file, field.nrow, field.ncol = "", rows, columns
        field.userdata = model.hfield_data[first : first + rows * columns]


def _drop(spec: Any) -> None:
    """Leave out what only pictures show and what is kept elsewhere: textures from files, skins, keyframes."""
    gone = [texture for texture in spec.textures if texture.file or any(texture.cubefiles)]
    names = {texture.name for texture in gone}
    for material in spec.materials:
        for role, name in enumerate(material.textures):
            if name in names:
                material.textures[role] = ""
    for part in [*gone, *spec.skins, *spec.keys, *spec.texts, *spec.tuples, *spec.numerics]:
        spec.delete(part)
    spec.meshdir = spec.texturedir = ""
    spec.memory = -1
