"""What describes a robot."""

from dataclasses import dataclass, field
from typing import Literal

Rotation = Literal["pitch", "quaternion", "angles", "yaw", "none"]
Fallen = Literal["upside_down", "lying", "tipped", "never"]
Blocks = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Robot:
    """One robot: its model, its state, its episode and its external reward.

    The state is `qpos` followed by `qvel` (D'Kitty has more: see `dkitty.py`). The external reward of a step is
    `forward_weight * (x' - x) / dt + alive_reward - control_cost * |ctrl|^2` with `ctrl` in actuator units.
    """

    name: str
    summary: str
    model_file: str
    num_positions: int
    """Values of the state before the velocities: the size of `qpos`."""
    frame_skip: int
    horizon: int
    qpos_noise: float
    """Initial positions are the model's plus U(-qpos_noise, qpos_noise)."""
    qvel_noise: float
    """Initial velocities: scale of the normal or half-width of the uniform noise."""
    qvel_noise_is_normal: bool
    location_dims: tuple[int, ...]
    """Where the robot is: the dimensions that the linearizer does not see and the metrics are about."""
    control_cost: float
    rotation: Rotation = "pitch"
    """How the torso turns: in a vertical plane, in space with a quaternion or angles about x, y and z after its
    position, about the vertical with an angle after x and y, or not at all as far as is known."""
    fallen: Fallen = "never"
    """How it can end up unable to move on: rolled over, pitched by more than a radian (in a plane), or tilted."""
    terminates_when_fallen: bool = False
    alive_reward: float = 0.0
    forward_weight: float = 1.0
    velocity_clip: float | None = None
    healthy_height: tuple[float, float] | None = None
    """The episode terminates when the torso's height leaves this range."""
    healthy: tuple[tuple[int, float, float], ...] = ()
    """The episode terminates when such a value of qpos and qvel leaves the range between the two numbers."""
    total_mass: float | None = None
    """What the model file asks for through the deprecated `settotalmass`."""
    camera: tuple[float, float, float] = (90.0, -12.0, 3.8)
    """Where the camera of pictures and films is: azimuth, elevation (degrees) and distance (metres)."""
    square: float = 2.0
    """Side of a square of the floor in pictures and films (metres)."""
    goal_ranges: tuple[float, ...] = ()
    """HIRO's ranges of relative goals for its positions, in raw units (paper, appendix: choices of the reward)."""
    symmetry_generators: tuple[Blocks, ...] = ()
    """Exchanges of position, rotation and joints that leave the physics as it is (see `symmetry.py`)."""
    goal_range: float = 5.0
    """Metres around the origin in which the task of reaching a location has its goals, where no task says otherwise."""
    model: str = field(default="", repr=False)
    """The whole model as the text of an MJCF file, instead of `model_file`."""
    start: tuple[float, ...] | None = None
    """The qpos that episodes begin from, before noise (None: the model's own)."""
    control_range: tuple[tuple[float, float], ...] | None = None
    """The controls that actions -1 and 1 stand for (None: those of the model)."""
    hidden: tuple[int, ...] = ()
    """Values of qpos and qvel that the state leaves out."""

    def shown(self, num_values: int) -> tuple[int, ...]:
        """The values of qpos and qvel, which have so many, that the state has."""
        return tuple(i for i in range(num_values) if i not in self.hidden)
