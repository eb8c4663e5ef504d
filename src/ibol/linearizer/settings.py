"""Settings of the linearizer's training, what follows of them from a robot, and which do not go together."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from ibol.bounds import Count, Fraction, Natural, NonNegative, Positive
from ibol.envs import Env, Robot, RobotEnv
from ibol.errors import IbolError
from ibol.learners.sac_learner import SACFields
from ibol.linearizer.frame import has_goal_frame
from ibol.training.trainer import TrainingConfig

# With 'by_seconds', as Ant, Hopper and Humanoid have it: how long a reward counts, how long the first part of a return
# is, and shorter than what a step is so short that white noise leads nowhere.
_REWARD_SECONDS, _RETURN_SECONDS, _SHORT_STEP = 2.5, 0.042, 0.02


@dataclass(frozen=True)
class LinearizerConfig(TrainingConfig, SACFields):
    """Settings of the linearizer's training; the preset gives the defaults."""

    macro_length: Count = 10
    """Steps l of a macro step: the reward is the state's movement along the goal over these steps."""
    reward: Literal["inner_product", "euclidean"] = "inner_product"
    """The movement along the goal, or (Ant only) HIRO's distance to a relative goal position."""
    goal_beta: Positive = 1.0
    """Goals are 2 Beta(b, b) - 1 in each dimension; 1 is uniform."""
    position_goals: bool = False
    """Goals for the positions only, without the velocities."""
    reward_scale: Positive = 1.0
    """Factor of all rewards; learning is faster if the critic's values are well above its noise."""
    alive_bonus: float = 0.0
    """Reward for each step after which the robot has not fallen."""
    normalize_reward: bool = False
    """Standardise rewards by a moving average of each epoch's mean and variance (the authors' Ant)."""
    critic: Literal["scalar", "vector"] = "scalar"
    """What the critic predicts: the return, or the vector of discounted state differences whose product with the goal
    is the return."""
    n_step: Count = 1
    """Steps of the n-step return, after which the critic's value is added."""
    one_step_relabels: bool = False
    """Use several steps only for a transition's own goal, and one step for a new goal, because the later actions were
    not chosen for that goal."""
    relabel: Fraction = 0.0
    """Fraction of sampled transitions whose goal is replaced by a new random one."""
    action_cost: NonNegative = 0.0
    """Cost of |a|^2 for each step at the last epoch; it grows linearly from 0, so that the robot first learns to run,
    and then to move slowly for small goals."""
    sparse_goals: Fraction = 0.0
    """Fraction of goals that are 0 except in a few dimensions."""
    location_goals: Fraction = 0.0
    """Fraction of goals that are 0 except in the location; linearizers are measured with such goals, and mostly used
    with them."""
    symmetric: bool = False
    """Symmetry augmentation: exchange the robot's limbs at random in the transitions that get a new goal."""
    frame: Literal["world", "goal"] = "world"
    """How the networks see a robot that moves in the plane: as it is, or rotated so that the goal direction is the x
    axis, and with its limbs renumbered so that its heading is as close to that axis as its symmetries allow."""
    rhythms: Fraction = 0.0
    """Fraction of the first epoch's episodes in which the robot moves by a rhythm (an open-loop gait) instead of the
    policy, with linear decay to 0."""
    noise_color: NonNegative = 0.0
    """Exponent of the exploration noise's power spectrum over an episode: 0 is white (independent at each step), 1 pink
    (Eberhard et al. 2023), whose slow part moves a robot with short steps farther."""
    imitation_steps: Natural = 0
    """Gradient steps in each epoch in which the policy imitates the best rhythms; their learning rate decays to 0."""
    end_when_fallen: bool = False
    """End a training episode, with no value afterwards, when the robot has fallen and cannot move on."""
    by_seconds: bool = False
    """Compute the discount, the steps of a return (n_step) and the exploration noise from the seconds in a step, by the
    rule that fits our tuned robots, instead of using the settings of these names."""
    where_possible: bool = False
    """Leave out goal frame, symmetries and the end of episodes by falls where the robot does not have them, instead of
    stopping with an error; and rhythms where it has no symmetries or is moved by motors instead of servos."""
    normalizer_trajectories: Count = 500
    """Trajectories for the fixed observation statistics of an environment that comes without them."""
    evaluate_every: Natural = 10
    """Epochs between evaluations (distance for goals along the location); 0 never evaluates."""
    keep_best: bool = False
    """Keep the policy that reached farthest in an evaluation as the run's result, instead of the last one."""


def possible(config: LinearizerConfig, robot: Robot | None, env: Env) -> LinearizerConfig:
    """Settings without what this environment does not have, and without rhythms where forces move the joints."""
    planar = robot is not None and has_goal_frame(robot)
    symmetric = config.symmetric and robot is not None and bool(robot.symmetry_generators)
    gaits = symmetric and isinstance(env, RobotEnv) and has_servos(env.model)
    return dataclasses.replace(
        config,
        frame=config.frame if planar else "world",
        symmetric=symmetric,
        end_when_fallen=config.end_when_fallen and robot is not None and robot.fallen != "never",
        rhythms=config.rhythms if gaits else 0.0,
        imitation_steps=config.imitation_steps if gaits else 0,
    )


def has_servos(model: Any) -> bool:
    """Whether controls are positions that the joints are pulled to, so that noise makes a robot tremble on the spot."""
    return bool((model.actuator_biasprm[:, 1] < 0).all())


def timed(config: LinearizerConfig, seconds: float) -> LinearizerConfig:
    """Settings that follow from the seconds in a step."""
    return dataclasses.replace(
        config,
        discount=math.exp(-seconds / _REWARD_SECONDS),
        n_step=max(1, round(_RETURN_SECONDS / seconds)),
        noise_color=1.0 if seconds < _SHORT_STEP else 0.0,
    )


def check(env: str, config: LinearizerConfig, robot: Robot | None) -> None:
    """Settings that do not go together."""
    vector = config.critic == "vector"
    if config.end_when_fallen and robot is None:
        raise IbolError(f"end_when_fallen is for robots that fall, and {env} does not")
    if config.reward == "euclidean" and (vector or config.relabel or config.frame == "goal"):
        raise IbolError(
            "the euclidean reward is not linear in the goal: scalar critic, relabel 0 and frame world only; "
            "--variant euclidean sets them"
        )
    if config.normalize_reward and (vector or config.relabel or config.replay_size or config.n_step != 1):
        raise IbolError("normalize_reward is for the epoch's own steps: scalar critic, no replay, relabel 0, n_step 1")
    if config.symmetric and not config.relabel:
        raise IbolError("symmetric applies to transitions that get a new goal: set relabel above 0")
    if config.rhythms and not config.symmetric:
        raise IbolError("rhythms need the robot's symmetries to distinguish left from right: add --symmetric")
