"""Films: what they show, in what order, and what they say when something is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image

from conftest import fails
from ibol import gl as backend
from ibol.cli import main
from ibol.envs import ROBOTS, make
from ibol.envs.rendering import Stage
from ibol.errors import IbolError
from ibol.figures.keys import latent_colours
from ibol.films.chart import Chart
from ibol.films.episodes import Episodes, load_episodes, parse_latents
from ibol.films.film import _RING, frame_steps
from ibol.skills.latents import Gaussian


@pytest.fixture
def run(point_skills: Path) -> Path:
    return point_skills


@pytest.fixture
def gl() -> str:
    try:
        return backend.find_backend()
    except IbolError as error:
        pytest.skip(str(error))


def video(*args: object) -> None:
    main(["video", *map(str, args), "--quiet"])


def episodes(steps: int, seconds: float = 0.05) -> Episodes:
    return Episodes("point", ("a",), np.zeros((1, 3)), np.zeros((1, steps + 1, 2), np.float32), (0, 1), seconds)


def test_frames_are_in_real_time_and_end_with_the_last_step() -> None:
    assert frame_steps(episodes(4), 20) == [0, 1, 2, 3, 4]
    assert frame_steps(episodes(4), 10) == [0, 2, 4]
    assert frame_steps(episodes(5), 10) == [0, 2, 4, 5]
    assert frame_steps(episodes(2), 40) == [0, 0, 1, 2, 2]  # Python rounds halves to even
    assert len(frame_steps(episodes(500, 0.008), 25)) == 101  # 4 seconds of Hopper


def test_latents_are_parsed() -> None:
    np.testing.assert_array_equal(parse_latents("8 directions", Gaussian(2)), Gaussian(2).shown())
    np.testing.assert_allclose(parse_latents("0,1.5; 1.5,-2", Gaussian(2)), [[0, 1.5], [1.5, -2]])
    grid = parse_latents("grid", Gaussian(3))
    np.testing.assert_array_equal(grid[0], [-1.5, 1.5, 0])  # reads as a plane: up is the second dimension
    np.testing.assert_array_equal(grid[4], [0, 0, 0])
    assert abs(parse_latents("8 directions", Gaussian(1), radius=1.0)).max() == 1.0
    for wrong in ("1,2,3", "1", "a,b", "", "nan,0", "1,2; 3"):
        with pytest.raises(IbolError, match=r"2 numbers for each, such as '1\.5,0; 1\.06,1\.06'"):
            parse_latents(wrong, Gaussian(2))
    with pytest.raises(IbolError, match="at most 36"):
        parse_latents(";".join(["0,0"] * 37), Gaussian(2))


def test_each_direction_stands_where_it_points() -> None:
    for (row, column), (x, y) in zip(_RING, Gaussian(2).shown(), strict=True):
        assert (column - 1, 1 - row) == (round(x / 1.5), round(y / 1.5))


def test_a_film_has_all_frames_of_all_tiles(run: Path, tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    video(run, "--output", film, "--size", 64, "--steps", 4)
    command = [get_ffmpeg_exe(), "-loglevel", "error", "-i", str(film), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    frames = np.frombuffer(raw, np.uint8).reshape(5, 3 * 52 + 4, 3 * 68 + 4, 3)
    assert (frames[0] != frames[-1]).mean() > 0.001


def test_a_gif_frames_latents_in_their_colours(run: Path, tmp_path: Path) -> None:
    film = tmp_path / "film.gif"
    video(run, "--output", film, "--size", 64, "--steps", 2, "--latents", "2,0; -2,0", "--deterministic")
    with Image.open(film) as moving:
        assert moving.n_frames == 3
        assert moving.info["duration"] == 50
        picture = np.asarray(moving.convert("RGB"), int)
    for column, colour in enumerate(latent_colours(np.array([[2, 0], [-2, 0]], np.float32), Gaussian(2))):
        edge = picture[4 + 24, 4 + 68 * column + 1]
        assert abs(edge - 255 * colour).max() < 25


def test_a_strip_is_decided_by_the_seed_and_nothing_is_lost(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strips = [tmp_path / f"{name}.png" for name in "abc"]
    for strip, seed in zip(strips, (0, 0, 1), strict=True):
        video(run, "--output", strip, "--size", 80, "--latents", "1,1", "--seed", seed)
    assert strips[0].read_bytes() == strips[1].read_bytes() != strips[2].read_bytes()
    with Image.open(strips[0]) as picture:
        assert picture.size == (6 * 84, 64)
    before = strips[0].read_bytes()
    assert "--overwrite" in fails(capsys, "video", run, "--output", strips[0])
    assert strips[0].read_bytes() == before
    video(run, "--output", strips[0], "--size", 80, "--latents", "1,1", "--seed", 1, "--overwrite")
    assert strips[0].read_bytes() == strips[2].read_bytes()
    assert sorted(tmp_path.iterdir()) == strips


def test_wrong_calls_are_explained(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "choose .mp4, .gif, .png" in fails(capsys, "video", run, "--output", tmp_path / "a.avi")
    assert "at least 64" in fails(capsys, "video", run, "--output", tmp_path / "a.mp4", "--size", 10)
    assert "1 to 100" in fails(capsys, "video", run, "--output", tmp_path / "a.mp4", "--frames-per-second", 0)
    assert "no directory" in fails(capsys, "video", run, "--output", tmp_path / "none" / "a.mp4")
    assert "at least 1 is needed" in fails(capsys, "video", run, "--output", tmp_path / "a.mp4", "--steps", 0)
    assert "such as" in fails(capsys, "video", run, "--output", tmp_path / "a.mp4", "--latents", "north")
    assert "nothing is not a run" in fails(capsys, "video", "nothing", "--output", tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_a_plain_policy_has_one_tile_and_no_latents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "sac"
    main(["sac", "point", "--preset", "smoke", "--epochs", "1", "--quiet", "--run-dir", str(run)])
    found = load_episodes(str(run), steps=3)
    assert found.labels == ("point",)
    assert found.states.shape == (1, 4, 2)
    assert "without latents" in fails(capsys, "video", run, "--latents", "grid", "--output", tmp_path / "a.mp4")


def test_a_chart_puts_places_where_they_are() -> None:
    paths = np.array([[[0.0, 0.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    picture = Chart(paths, np.array([[1.0, 0, 0], [0, 0, 1.0]]), 200, 100, 0.05).draw(1).astype(int)
    red = (picture[..., 0] > 200) & (picture[..., 2] < 60)
    blue = (picture[..., 2] > 200) & (picture[..., 0] < 60)
    assert np.argwhere(red)[:, 1].mean() > np.argwhere(blue)[:, 1].mean() + 20  # further right
    assert np.argwhere(blue)[:, 0].mean() < np.argwhere(red)[:, 0].mean() - 10  # further up
    assert np.ptp(np.argwhere(red)[:, 1]) == pytest.approx(0.82 * 200, abs=25)


def test_the_library_that_works_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(working: set[str], **environment: str) -> str:
        monkeypatch.setattr(backend, "_works", working.__contains__)
        for name in ("MUJOCO_GL", "DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        backend._find_backend.cache_clear()
        try:
            return backend.find_backend()
        finally:
            backend._find_backend.cache_clear()

    assert choose({"egl", "osmesa", "glfw"}) == "egl"
    assert choose({"osmesa", "glfw"}) == "osmesa"
    assert choose({"glfw"}, DISPLAY=":0") == "glfw"
    assert choose({"egl", "osmesa"}, MUJOCO_GL="osmesa") == "osmesa"
    with pytest.raises(IbolError, match="libosmesa6"):
        choose({"glfw"})
    with pytest.raises(IbolError, match="MUJOCO_GL is 'egl', which cannot render here"):
        choose({"osmesa"}, MUJOCO_GL="egl")


def test_a_library_that_is_missing_does_not_work() -> None:
    assert not backend._works("nowhere")


def test_a_wrong_mujoco_gl_is_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ibol",
        "video",
        "half_cheetah",
        "--steps",
        "1",
        "--output",
        str(tmp_path / "a.png"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "MUJOCO_GL": "nonsense"}, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("ibol: MUJOCO_GL is 'nonsense', which cannot render here: unset it")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("robot", ["ant", "half_cheetah"])
@pytest.mark.parametrize("goal", [(15.0, 9.0), (-6.0, -14.0), (0.2, 0.0), (-1.0, 20.0)])
def test_robot_and_goal_are_both_in_the_frame(gl: str, robot: str, goal: tuple[float, float]) -> None:
    state = make(robot).reset(seed=0)[0][0]
    place = np.array(goal[: len(ROBOTS[robot].location_dims)])
    with Stage(ROBOTS[robot], 96, 72, smooth=False) as stage:
        without = stage.draw(state[None], np.array([0.1, 0.2, 0.9])).astype(int)
        picture = stage.draw(state[None], np.array([0.1, 0.2, 0.9]), place).astype(int)
        end = [place[0], place[1] if len(place) > 1 else 0.0]
        torso = [state[0], state[1] if len(place) > 1 else 0.0, 0.5]
        for point in ([*end, 0.0], [*end, 1.8], torso):
            x, y = stage.pixel(np.array(point))
            assert 0 < x < 96, point
            assert 0 < y < 72, point
        x, y = stage.pixel(np.array([*end, 0.0])).round().astype(int)
    red, before = (shot[..., 0] - shot[..., 1] > 120 for shot in (picture, without))
    assert red[max(y - 4, 0) : y + 5, max(x - 4, 0) : x + 5].any(), "the post stands where the projection says"
    assert not before.any()


def test_a_robot_stands_on_its_shadow(gl: str) -> None:
    state = make("ant").reset(seed=0)[0][0]
    with Stage(ROBOTS["ant"], 96, 72, smooth=False) as stage:
        shaded = stage.draw(state[None], np.zeros(3)).astype(int)
        stage._shadows = lambda: None  # type: ignore[method-assign]
        bare = stage.draw(state[None], np.zeros(3)).astype(int)
    darker = (shaded < bare - 20).all(axis=-1)
    assert 30 < darker.sum() < 1500
    assert not (shaded > bare + 5).any()


def test_a_map_has_axes_and_grows_as_if_drawn_at_once() -> None:
    rng = np.random.default_rng(0)
    paths = np.cumsum(rng.normal(size=(4, 40, 2)), axis=1)
    chart = Chart(paths, np.eye(4, 3), 160, 120, 0.05)
    for step in (0, 3, 4, 20, 39):
        grown = chart.draw(step).astype(int)
        assert abs(grown - Chart(paths, np.eye(4, 3), 160, 120, 0.05).draw(step)).mean() < 0.3
    assert chart.draw(0).tolist() == Chart(paths, np.eye(4, 3), 160, 120, 0.05).draw(0).tolist(), "it can go back"
    empty = chart.draw(0).astype(int)
    ink = (empty.max(axis=-1) < 180) & (np.ptp(empty, axis=-1) < 30)
    assert ink[108:, 125:].any(), "x (m)"
    assert ink[15:28, :40].any(), "y (m)"
    assert ink[30:100, :24].any(), "metres along y"
    assert ink[108:, 24:120].any(), "metres along x"
    (x, y), (a, b) = chart.places(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert a - x == pytest.approx(y - b), "metres are as long in both directions"


def test_the_camera_goes_with_the_robot_over_a_floor_that_repeats(gl: str) -> None:
    states = np.repeat(make("half_cheetah").reset(seed=0)[0], 2, axis=0)
    moved, bent = states.copy(), states.copy()
    moved[:, 0] += 8.0  # squares of 2 m: the floor looks the same every 4 m
    bent[:, 3:9] += 0.5
    grey = np.full(3, 0.5)
    with Stage(ROBOTS["half_cheetah"], 96, 72) as stage:
        here, there, other = (stage.draw(path[-1:], grey).astype(int) for path in (states, moved, bent))
        walked = stage.draw(np.stack([moved[0], states[0]]), np.array([1.0, 0.0, 0.0])).astype(int)
    assert abs(here - there).mean() < 0.05
    assert abs(here - other).mean() > 0.5
    assert here.std() > 20  # floor, sky, robot
    red = (walked[..., 0] > 180) & (walked[..., 1] < 110)
    assert red.sum() > 20
    assert not ((here[..., 0] > 180) & (here[..., 1] < 110)).any()


def test_a_robots_film(gl: str, tmp_path: Path) -> None:
    strip = tmp_path / "ant.png"
    video("ant", "--output", strip, "--size", 64, "--steps", 1, "--latents", "1,0; -1,0")
    with Image.open(strip) as picture:
        assert picture.size == (2 * 68, 2 * 52)
