"""`ibol video`: episodes side by side in one film, or moments of them in one picture."""

import contextlib
import itertools
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont

from ibol.bounds import whole_number
from ibol.envs.rendering import Stage
from ibol.errors import IbolError
from ibol.films.chart import Chart, Image
from ibol.films.episodes import Episodes
from ibol.metrics.directions import principal_directions
from ibol.runs.files import check_free
from ibol.runs.progress import WorkProgress

ENDINGS = (".mp4", ".gif", ".png")
MOMENTS = 6  # of an episode in a picture
_LEAST, _MOST = 64, 1920  # pixels
_GAP = 4  # pixels between tiles
_PAD = ((2, 2), (2, 2), (0, 0))
_GROUND = (34, 37, 41)
_RING = ((1, 2), (0, 2), (0, 1), (0, 0), (1, 0), (2, 0), (2, 1), (2, 2))  # where each of eight directions is
_SEEN = "states along their two principal directions"
_PALETTE = "split[a][b];[a]palettegen=stats_mode=diff[p];[b][p]paletteuse=dither=bayer:bayer_scale=4"
_CODEC = {
    ".mp4": ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "26", "-preset", "veryfast", "-movflags", "+faststart"],
    ".gif": ["-filter_complex", _PALETTE],
}

Draw = Callable[[int, int], Image]  # episode and step


def check_film(output: Path, *, size: int, frames_per_second: float, overwrite: bool) -> None:
    """Refuse, before any work is done, what could not be written."""
    check_free(output, overwrite=overwrite, flag="--output", endings=ENDINGS)
    whole_number("--size", size, _LEAST, _MOST)
    if not 1 <= frames_per_second <= 100:
        raise IbolError(f"--frames-per-second is {frames_per_second:g}, but 1 to 100 are possible")


def write_film(
    episodes: Episodes, output: Path, *, size: int = 320, frames_per_second: float = 20.0, quiet: bool = False
) -> None:
    """A film in real time (.mp4, .gif), or a strip of moments with one row for each episode (.png).

    `size` is the width of a tile in pixels; tiles are 4 : 3.
    """
    width, height = 2 * (size // 2), 2 * (size * 3 // 8)
    kind = output.suffix.lower()
    partial = output.with_name(f".{output.stem}.partial{kind}")
    try:
        with _painter(episodes, width, height) as draw:
            if kind == ".png":
                Pictures.fromarray(_strip(episodes, draw, quiet)).save(partial)
            else:
                _encode(partial, _frames(episodes, draw, width, height, frames_per_second, quiet), frames_per_second)
        partial.replace(output)
    except OSError as error:
        raise IbolError(f"could not write {output}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def frame_steps(episodes: Episodes, frames_per_second: float) -> list[int]:
    """The steps that frames in real time show; the last one is always shown."""
    count = int(np.ceil(episodes.steps * episodes.seconds * frames_per_second - 1e-9))
    return [min(round(i / (frames_per_second * episodes.seconds)), episodes.steps) for i in range(count + 1)]


@contextlib.contextmanager
def _painter(episodes: Episodes, width: int, height: int) -> Iterator[Draw]:
    """How one tile is drawn: a robot on its stage, anything else as a point that moves."""
    robot = episodes.robot
    if robot is None:
        chart = _chart(episodes, width, height)
        yield lambda i, step: chart.draw(step, i)
        return
    goals = episodes.goals
    with Stage(robot, width, height) as stage:
        yield lambda i, step: stage.draw(
            episodes.states[i, : step + 1], episodes.colours[i], None if goals is None else goals[i, step]
        )


def _chart(episodes: Episodes, width: int, height: int) -> Chart:
    if not episodes.location_dims:
        states = episodes.states.reshape(-1, episodes.states.shape[2])
        paths = principal_directions(states)(episodes.states)
        return Chart(paths, episodes.colours, width, height, episodes.seconds, unit="std", title=_SEEN)
    if len(episodes.location_dims) > 2:
        raise IbolError(f"{episodes.env} has a location of more than 2 dimensions, which cannot be drawn")
    paths = episodes.states[:, :, list(episodes.location_dims)]
    return Chart(paths, episodes.colours, width, height, episodes.seconds, episodes.goals)


def _frames(
    episodes: Episodes, draw: Draw, width: int, height: int, frames_per_second: float, quiet: bool
) -> Iterator[Image]:
    count = len(episodes.labels)
    places, columns = _places(count, episodes.directions)
    rows = 1 + max(row for row, _ in places)
    free = [(row, column) for row in range(rows) for column in range(columns) if (row, column) not in places]
    chart = _chart(episodes, width, height) if free and count > 1 else None
    steps = frame_steps(episodes, frames_per_second)
    with WorkProgress(len(steps), "frames", quiet) as progress:
        for step in steps:
            canvas = np.empty((rows * (height + _GAP) + _GAP, columns * (width + _GAP) + _GAP, 3), np.uint8)
            canvas[:] = _GROUND
            tiles = [_tile(episodes, draw, i, step, label) for i, label in enumerate(episodes.labels)]
            if chart is not None:
                tiles.append(_framed(chart.draw(step), f"{step * episodes.seconds:.1f} s"))
            for (row, column), tile in zip([*places, *free], tiles, strict=False):
                top, left = _GAP + row * (height + _GAP), _GAP + column * (width + _GAP)
                canvas[top : top + height, left : left + width] = tile
            yield canvas
            progress.advance(1)


def _places(count: int, directions: bool) -> tuple[Sequence[tuple[int, int]], int]:
    """Row and column of each tile, and the number of columns: directions stand around their centre."""
    if directions:
        return _RING, 3
    columns = int(np.ceil(np.sqrt(count)))
    return [divmod(i, columns) for i in range(count)], columns


def _strip(episodes: Episodes, draw: Draw, quiet: bool) -> Image:
    """One row for each episode, one column for each moment."""
    steps = np.linspace(0, episodes.steps, min(MOMENTS, episodes.steps + 1)).round().astype(int)
    rows = []
    with WorkProgress(len(episodes.labels) * len(steps), "pictures", quiet) as progress:
        for i, label in enumerate(episodes.labels):
            row = []
            for step in steps:
                text = f"{label}, {step * episodes.seconds:.1f} s" if step == 0 else f"{step * episodes.seconds:.1f} s"
                row.append(np.pad(_tile(episodes, draw, i, int(step), text), _PAD, constant_values=255))
                progress.advance(1)
            rows.append(np.concatenate(row, axis=1))
    return np.concatenate(rows)


def _tile(episodes: Episodes, draw: Draw, i: int, step: int, label: str) -> Image:
    """An episode at a step; below it where a robot is, which a camera that goes with it cannot show."""
    place = episodes.states[i, step, list(episodes.location_dims)]
    where = ", ".join(f"{name} {value:.1f} m" for name, value in zip("xy", place + 0.0, strict=False))
    if episodes.goals is not None:
        where += f", goal {np.linalg.norm(episodes.goals[i, step] - place):.1f} m away"
    return _framed(draw(i, step), label, where if episodes.robot is not None else "", episodes.colours[i])


def _framed(tile: Image, label: str, below: str = "", colour: np.ndarray | None = None) -> Image:
    """A tile in its colour with its name in the corner."""
    picture = Pictures.fromarray(tile)
    pen = ImageDraw.Draw(picture)
    width, height = picture.size
    if colour is not None:
        edge = tuple(round(255 * float(value)) for value in colour)
        pen.rectangle((0, 0, width - 1, height - 1), outline=edge, width=max(3, width // 80))
    font, margin, stroke = ImageFont.load_default(max(10, width // 20)), max(8, width // 32), max(2, width // 160)
    for text, y, anchor in ((label, margin, "la"), (below, height - margin, "ls")):
        pen.text((margin, y), text, (24, 27, 31), font, anchor, stroke_width=stroke, stroke_fill="white")
    return np.asarray(picture)


def _encode(output: Path, frames: Iterator[Image], frames_per_second: float) -> None:
    """Give the frames to the encoder inside imageio-ffmpeg."""
    first = next(frames)
    height, width, _ = first.shape
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{frames_per_second:g}"]
    command = [get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, "-i", "-", *_CODEC[output.suffix], str(output)]
    with tempfile.TemporaryFile() as messages:
        encoder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=messages, stderr=messages)
        assert encoder.stdin is not None
        try:
            for frame in itertools.chain([first], frames):
                encoder.stdin.write(frame.tobytes())
        except BrokenPipeError:
            pass  # it says why below
        except BaseException:
            encoder.kill()
            raise
        finally:
            with contextlib.suppress(BrokenPipeError):
                encoder.stdin.close()
            failed = encoder.wait()
        if failed:
            messages.seek(0)
            raise OSError(messages.read().decode(errors="replace").strip().splitlines()[-1])
