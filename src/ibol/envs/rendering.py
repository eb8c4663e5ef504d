"""Pictures of environments: a robot on a checkered floor with a camera that goes with it, or a point from above.

OpenGL is opened with the first picture of a robot.
"""

import itertools
import weakref
from types import TracebackType
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from ibol.bounds import whole_number
from ibol.envs.base import BatchedEnv
from ibol.envs.point import START_RANGE, STEP_SIZE
from ibol.envs.robots import Robot, load_model
from ibol.errors import IbolError
from ibol.gl import gl_context

Image = NDArray[np.uint8]  # (height, width, 3)
Colour = NDArray[np.floating]  # (3,), from 0 to 1

_TRAIL_PIECES = 60  # a longer path is drawn in larger steps: pieces are what takes time
_GOAL = np.array([0.85, 0.15, 0.15])
_BLUE = np.array([0.15, 0.35, 0.75])
_PAPER, _GRID = 250, 226  # shades of grey
_PLANE = mujoco.mjtGeom.mjGEOM_PLANE
_UPRIGHT = np.eye(3).ravel()

RENDER_MODES = ["rgb_array"]


class Renderer:
    """Pictures (height, width, 3) of the first environment of a batch, for the `render` of Gymnasium environments.

    Args:
        env: a batch of ours; anybody's own environment cannot be shown.
        mode: "rgb_array", or None to show nothing.
        width: of a picture, in pixels.
        height: of a picture, in pixels.
    """

    def __init__(self, env: Any, mode: str | None, width: int = 480, height: int = 360) -> None:
        if mode not in (None, *RENDER_MODES):
            raise IbolError(f"render_mode is {mode!r}, but it must be 'rgb_array', or None to show nothing")
        if mode is not None and not isinstance(env, BatchedEnv):
            raise IbolError(f"render_mode is {mode!r}, but only our own environments have pictures, not {env.name}")
        self.env, self.mode = env, mode
        self.size = whole_number("width", width), whole_number("height", height)
        self._stage: Stage | None = None

    def metadata(self, steps: int = 1) -> dict[str, Any]:
        """What Gymnasium wants to know where a picture is made every few steps."""
        return {"render_modes": RENDER_MODES, "render_fps": max(1, round(1 / (self.env.dt * steps)))}

    def picture(self) -> Image | None:
        """The present state."""
        if self.mode is None:
            return None
        state, goal = self.env.shown()
        if self.env.robot is None:
            reach = START_RANGE + STEP_SIZE * self.env.horizon
            return _point_from_above(state[:2], goal, reach, *self.size)
        if self._stage is None:
            self._stage = Stage(self.env.robot, *self.size)
        return self._stage.draw(state[None], _BLUE, goal)

    def close(self) -> None:
        """Give the context back; the next picture opens another one."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_stage": None}  # a copy opens a context of its own


def _point_from_above(
    place: NDArray[np.floating], goal: NDArray[np.floating] | None, reach: float, width: int, height: int
) -> Image:
    """A disc for the point and one for its goal on a grid of metres, `reach` to each side of the origin."""
    metre = 2 * reach / min(width, height)  # of a pixel
    x, y = (np.arange(width) + 0.5 - width / 2) * metre, (height / 2 - np.arange(height)[:, None] - 0.5) * metre
    picture = np.full((height, width, 3), _PAPER, np.uint8)
    picture[(abs(x - x.round()) <= metre / 2) | (abs(y - y.round()) <= metre / 2)] = _GRID
    for centre, colour in ((goal, _GOAL), (place, _BLUE)):
        if centre is not None:
            picture[np.hypot(x - centre[0], y - centre[1]) < 0.03 * reach] = np.round(255 * colour)
    return picture


class Stage:
    """Renders states of a robot in pictures of one size; use it as a context manager."""

    def __init__(self, robot: Robot, width: int, height: int) -> None:
        self._model = load_model(robot, lambda spec: _dress(spec, robot.square, width, height))
        self._data = mujoco.MjData(self._model)
        self._context = gl_context(width, height)
        self._mjr = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        self._free = weakref.finalize(self, _free, self._context, self._mjr)
        self._free.atexit = False  # the library may be gone by then
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._mjr)
        self._scene = mujoco.MjvScene(self._model, maxgeom=_TRAIL_PIECES + 210 + 2 * self._model.ngeom)
        self._options = mujoco.MjvOption()
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._camera = mujoco.MjvCamera()
        self._camera.azimuth, self._camera.elevation, self._camera.distance = robot.camera
        self._robot = robot
        self._shown = [i for i in robot.shown(self._model.nq + self._model.nv) if i < self._model.nq]
        self._rest = np.array(self._model.qpos0 if robot.start is None else robot.start)
        self._ground = _floor_height(self._model)
        self._height = self._ground + 0.5 * (float(self._start()[2]) - self._ground)
        self._trail_width = robot.square / 40

    def _start(self) -> NDArray[np.float64]:
        if self._robot.start is not None:
            self._data.qpos[:] = self._robot.start
        mujoco.mj_forward(self._model, self._data)
        return self._data.xpos[1]

    def draw(self, states: NDArray[np.floating], colour: Colour, goal: NDArray[np.floating] | None = None) -> Image:
        """The last of the states (T, n), with the path of the torso on the floor, and a post at the goal (k,)."""
        self._pose(states[-1])
        self._camera.lookat = [*self._data.xpos[1][:2], self._height]
        mujoco.mjv_updateScene(
            self._model, self._data, self._options, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL.value, self._scene
        )
        self._trail(states, colour)
        if goal is not None:
            self._post(states[-1], goal, colour)
        self._context.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._mjr)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._mjr)
        return np.flipud(self._pixels).copy()

    def _pose(self, state: NDArray[np.floating]) -> None:
        self._data.qpos[:] = self._rest
        self._data.qpos[self._shown] = state[: len(self._shown)]
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)

    def _trail(self, states: NDArray[np.floating], colour: Colour) -> None:
        points = self._floor_points(np.concatenate([states[: -1 : 1 + len(states) // _TRAIL_PIECES], states[-1:]]))
        for start, end in itertools.pairwise(points):
            self._line(start, end, self._trail_width, colour)

    def _floor_points(self, states: NDArray[np.floating]) -> NDArray[np.float64]:
        """Where on the floor (T, 2) the robot is, for one that has a location in metres there."""
        dims = self._robot.location_dims
        places = np.zeros((len(states), 2))
        if self._robot.rotation != "none" or len(dims) == 1:
            # A robot in a vertical plane has its height as second value.
            places[:, : min(len(dims), 2)] = states[:, list(dims[:2])]
        return places

    def _post(self, state: NDArray[np.floating], goal: NDArray[np.floating], colour: Colour) -> None:
        """A post on a disc, and a thin line that leads there, since the camera stays with the robot."""
        flat = len(goal) == 1
        start = self._floor_points(state[None])[0]
        end = np.array([goal[0], 0.0 if flat else goal[1]], np.float64)
        self._line(start, end, 0.3 * self._trail_width, _GOAL)
        cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER.value
        self._piece(cylinder, [0.5, 0.01, 0.0], [*end, self._ground + 0.01], _UPRIGHT, _GOAL)
        self._piece(cylinder, [0.06, 0.75, 0.0], [*end, self._ground + 0.75], _UPRIGHT, _GOAL)
        self._piece(mujoco.mjtGeom.mjGEOM_SPHERE.value, [0.2] * 3, [*end, self._ground + 1.6], _UPRIGHT, colour)

    def _line(self, start: NDArray[np.float64], end: NDArray[np.float64], width: float, colour: Colour) -> None:
        (x, y), (cos, sin) = (start + end) / 2, _direction(end - start)
        size, turn = [float(np.linalg.norm(end - start)) / 2, width, width / 10], [cos, -sin, 0, sin, cos, 0, 0, 0, 1]
        self._piece(mujoco.mjtGeom.mjGEOM_BOX.value, size, [x, y, self._ground + width / 10], turn, colour)

    def _piece(self, kind: int, size: Any, place: Any, turn: Any, colour: Colour) -> None:
        """Add a solid to the scene."""
        piece = self._scene.geoms[self._scene.ngeom]
        rgba = np.append(colour, 1.0).astype(np.float32)
        mujoco.mjv_initGeom(piece, kind, *(np.array(value, np.float64) for value in (size, place, turn)), rgba)
        piece.emission, piece.specular = 0.3, 0.0
        self._scene.ngeom += 1

    def close(self) -> None:
        """Give the context back."""
        self._free()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _free(context: Any, mjr: Any) -> None:
    """Free what was made in a context while it is the current one: names of another one's objects may be the same."""
    context.make_current()
    mjr.free()
    context.free()


def _direction(line: NDArray[np.float64]) -> NDArray[np.float64]:
    length = float(np.linalg.norm(line))
    return line / length if length > 0 else np.array([1.0, 0.0])


def _floor_height(model: Any) -> float:
    """The height of the plane that a dressed model has."""
    planes = np.flatnonzero((model.geom_type == _PLANE.value) & (model.geom_bodyid == 0))
    return float(model.geom_pos[planes[0], 2]) if len(planes) else 0.0


def _dress(spec: Any, square: float, width: int, height: int) -> None:
    """Give a model another floor, sky and light; its physics stays as it is, and is not used here anyway."""
    visual = spec.visual
    visual.global_.offwidth, visual.global_.offheight = width, height
    visual.quality.offsamples, visual.quality.shadowsize = 4, 1024
    visual.headlight.ambient, visual.headlight.diffuse = [0.35] * 3, [0.35] * 3
    visual.headlight.specular = [0.0] * 3
    visual.map.shadowclip = 4.0  # the floor shades itself at the edges of a smaller region
    for texture in list(spec.textures):
        if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            spec.delete(texture)
    gradient, checker = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT, mujoco.mjtBuiltin.mjBUILTIN_CHECKER
    spec.add_texture(
        name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=gradient,
        rgb1=[0.55, 0.72, 0.90], rgb2=[0.93, 0.95, 0.97], width=256, height=1536,
    )  # fmt: skip
    spec.add_texture(
        name="squares", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=checker,
        rgb1=[0.80, 0.82, 0.84], rgb2=[0.64, 0.67, 0.70], width=512, height=512,
    )  # fmt: skip
    squares = spec.add_material(name="squares", texrepeat=[1 / square] * 2, texuniform=True)
    squares.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "squares"
    floor = spec.geom("floor") or next((geom for geom in spec.worldbody.geoms if geom.type == _PLANE), None)
    if floor is None:
        floor = spec.worldbody.add_geom(type=_PLANE, contype=0, conaffinity=0)
    floor.material, floor.rgba, floor.size = "squares", [1, 1, 1, 1], [0, 0, 1]  # without an end
    for light in list(spec.lights):
        spec.delete(light)
    spec.worldbody.first_body().add_light(
        mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACK, type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[-1.5, -2, 6], dir=[0.25, 0.35, -1], diffuse=[0.55] * 3, specular=[0.2] * 3, castshadow=True,
    )  # fmt: skip
