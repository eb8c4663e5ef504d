"""Pictures of environments: a robot on a checkered floor with a camera that goes with it, or a point from above.

OpenGL is opened with the first picture of a robot.
"""

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
_LARGE = 640  # pixels; in narrower pictures round solids have fewer faces, as nobody sees them
_LIGHT = np.array([0.25, 0.35, -1.0])  # the way it falls
_SHADOW = np.array([0.33, 0.35, 0.38])
_FLAT = np.array([[1, 0, -_LIGHT[0] / _LIGHT[2]], [0, 1, -_LIGHT[1] / _LIGHT[2]], [0, 0, 1e-3]])
"""Flattens what stands on the floor along the light."""
_POST = 1.8  # metres: the height of the post at a goal
_BODY = 0.8  # metres that a robot may reach to each side
_WITHIN = 0.85  # of the way from the middle of the picture to its edge, that robot and goal may be
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
    """Renders states of a robot in pictures of one size; use it as a context manager.

    `smooth` edges take half of the time where the processor renders.
    """

    def __init__(self, robot: Robot, width: int, height: int, *, smooth: bool = True) -> None:
        self._model = load_model(robot, lambda spec: _dress(spec, robot.square, width, height, smooth))
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
        self._distance = robot.camera[2]
        self._trail_width = robot.square / 40

    def _start(self) -> NDArray[np.float64]:
        if self._robot.start is not None:
            self._data.qpos[:] = self._robot.start
        mujoco.mj_forward(self._model, self._data)
        return self._data.xpos[1]

    def draw(self, states: NDArray[np.floating], colour: Colour, goal: NDArray[np.floating] | None = None) -> Image:
        """The last of the states (T, n), with the path of the torso on the floor, and a post at the goal (k,).

        The camera goes with the robot; with a goal it looks between the two, from as far as it takes to see both.
        """
        self._pose(states[-1])
        self._look(goal)
        mujoco.mjv_updateScene(
            self._model, self._data, self._options, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL.value, self._scene
        )
        self._shadows()
        self._trail(states, colour)
        if goal is not None:
            self._post(goal, colour)
        self._context.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._mjr)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._mjr)
        return np.flipud(self._pixels).copy()

    def _look(self, goal: NDArray[np.floating] | None) -> None:
        torso = np.array([*self._data.xpos[1][:2], self._height])
        self._camera.lookat, self._camera.distance = torso, self._distance
        if goal is not None:
            end = self._place_of(goal)
            post = np.array([*end, self._height])
            up, aside = np.array([0.0, 0.0, _POST]), _BODY * self._view()[1]
            seen = np.stack([torso + up, torso - aside, torso + aside, post + up, post - aside, post + aside])
            self._camera.lookat = (torso + post) / 2
            self._camera.distance = max(self._distance, self._far_enough(seen))

    def _far_enough(self, points: NDArray[np.float64]) -> float:
        """From which distance points (N, 3) are within the picture, a little away from its edges."""
        forward, right, up = self._view()
        offsets = points - self._camera.lookat
        tall = np.tan(np.radians(self._model.vis.global_.fovy) / 2)
        wide = tall * self._rect.width / self._rect.height
        needed = np.maximum(abs(offsets @ right) / wide, abs(offsets @ up) / tall) / _WITHIN
        return float((needed - offsets @ forward).max())

    def _view(self) -> NDArray[np.float64]:
        """The camera's directions forward, right and up (3, 3)."""
        turn, tilt = np.radians([self._camera.azimuth, self._camera.elevation])
        forward = [np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)]
        right = [np.sin(turn), -np.cos(turn), 0.0]
        return np.array([forward, right, np.cross(right, forward)])

    def pixel(self, point: NDArray[np.floating]) -> NDArray[np.float64]:
        """Where a place (3,) stood in the last picture, in pixels from its upper left corner (2,)."""
        forward, right, up = self._view() @ (point - self._camera.lookat)
        scale = self._rect.height / 2 / np.tan(np.radians(self._model.vis.global_.fovy) / 2)
        across = np.array([right, -up]) * scale / (forward + self._camera.distance)
        return np.array([self._rect.width / 2, self._rect.height / 2]) + across

    def _place_of(self, goal: NDArray[np.floating]) -> NDArray[np.float64]:
        """Where a goal (1 or 2,) is on the floor (2,)."""
        return np.array([goal[0], 0.0 if len(goal) == 1 else goal[1]], np.float64)

    def _pose(self, state: NDArray[np.floating]) -> None:
        self._data.qpos[:] = self._rest
        self._data.qpos[self._shown] = state[: len(self._shown)]
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)

    def _trail(self, states: NDArray[np.floating], colour: Colour) -> None:
        points = self._floor_points(np.concatenate([states[: -1 : 1 + len(states) // _TRAIL_PIECES], states[-1:]]))
        self._line(points, self._trail_width, colour)

    def _floor_points(self, states: NDArray[np.floating]) -> NDArray[np.float64]:
        """Where on the floor (T, 2) the robot is, for one that has a location in metres there."""
        dims = self._robot.location_dims
        places = np.zeros((len(states), 2))
        if self._robot.rotation != "none" or len(dims) == 1:
            # A robot in a vertical plane has its height as second value.
            places[:, : min(len(dims), 2)] = states[:, list(dims[:2])]
        return places

    def _post(self, goal: NDArray[np.floating], colour: Colour) -> None:
        """A post on a disc, and a thin line that leads there."""
        start, end = self._data.xpos[1][:2].copy(), self._place_of(goal)
        self._line(np.stack([start, end]), 0.3 * self._trail_width, _GOAL)
        cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER.value
        self._piece(cylinder, [0.5, 0.01, 0.0], [*end, self._ground + 0.01], _UPRIGHT, _GOAL)
        self._piece(cylinder, [0.06, 0.75, 0.0], [*end, self._ground + 0.75], _UPRIGHT, _GOAL)
        self._piece(mujoco.mjtGeom.mjGEOM_SPHERE.value, [0.2] * 3, [*end, self._ground + _POST - 0.2], _UPRIGHT, colour)

    def _line(self, points: NDArray[np.floating], width: float, colour: Colour) -> None:
        """A band on the floor through points (N, 2), a box for each piece."""
        pieces = np.diff(points.astype(np.float64), axis=0)
        lengths = np.hypot(pieces[:, 0], pieces[:, 1])
        middles = (points[1:] + points[:-1]) / 2
        turns = pieces / np.where(lengths > 0, lengths, 1.0)[:, None]
        box = mujoco.mjtGeom.mjGEOM_BOX.value
        for (x, y), (cos, sin), length in zip(middles, turns, lengths, strict=True):
            if length > 0:
                size = np.array([length / 2, width, width / 10])
                self._piece(
                    box,
                    size,
                    [x, y, self._ground + width / 10],
                    np.array([cos, -sin, 0, sin, cos, 0, 0, 0, 1.0]),
                    colour,
                )

    def _shadows(self) -> None:
        """The robot's solids once more, flattened on the floor.

        Shadow maps take software OpenGL longer than all the rest; on a flat floor this is the same shape.
        """
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.type != mujoco.mjtGeom.mjGEOM_PLANE.value and geom.rgba[3] > 0:
                place = _FLAT @ geom.pos + [0, 0, self._ground + 0.002]
                self._piece(geom.type, geom.size, place, (_FLAT @ geom.mat).ravel(), _SHADOW)
                flat = self._scene.geoms[self._scene.ngeom - 1]
                flat.size, flat.dataid = geom.size, geom.dataid  # as in the scene, where a capsule's differ

    def _piece(self, kind: int, size: Any, place: Any, turn: Any, colour: Colour) -> None:
        """Add a solid to the scene."""
        piece = self._scene.geoms[self._scene.ngeom]
        mujoco.mjv_initGeom(piece, kind, size, place, turn, [*colour, 1.0])
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


def _floor_height(model: Any) -> float:
    """The height of the plane that a dressed model has."""
    planes = np.flatnonzero((model.geom_type == _PLANE.value) & (model.geom_bodyid == 0))
    return float(model.geom_pos[planes[0], 2]) if len(planes) else 0.0


def _dress(spec: Any, square: float, width: int, height: int, smooth: bool) -> None:
    """Give a model another floor, sky and light; its physics stays as it is, and is not used here anyway."""
    visual = spec.visual
    visual.global_.offwidth, visual.global_.offheight = width, height
    visual.quality.offsamples = 4 if smooth else 0
    if width <= _LARGE:
        visual.quality.numslices, visual.quality.numstacks = 16, 8
    visual.headlight.ambient, visual.headlight.diffuse = [0.35] * 3, [0.35] * 3
    visual.headlight.specular = [0.0] * 3
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
        pos=[-1.5, -2, 6], dir=_LIGHT, diffuse=[0.55] * 3, specular=[0.2] * 3, castshadow=False,
    )  # fmt: skip
