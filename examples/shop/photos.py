"""Photos to try the shop with: landscapes drawn with Pillow, each number another one."""

from __future__ import annotations

import colorsys
import math
import random
from pathlib import Path

from PIL import Image, ImageDraw


def draw(path: Path, number: int, size: tuple[int, int] = (1600, 1200)) -> Path:
    """Sky, sun and three ridges; a JPEG of some megapixels, as a camera makes."""
    chance = random.Random(number)
    width, height = size
    hue = chance.random()

    sky = Image.linear_gradient("L").resize(size)
    image = Image.composite(
        Image.new("RGB", size, _colour(hue + 0.1, 0.3, 1.0)),
        Image.new("RGB", size, _colour(hue, 0.6, 0.7)),
        sky,
    )
    pen = ImageDraw.Draw(image)

    x, y, radius = chance.uniform(0.2, 0.8) * width, 0.3 * height, 0.08 * height
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(255, 244, 214))

    for ridge in range(3):
        base = height * (0.55 + 0.15 * ridge)
        waves = [(chance.uniform(1, 6), chance.uniform(0, math.tau)) for _ in range(4)]
        outline = [
            (step, base - 0.04 * height * sum(math.sin(f * math.tau * step / width + p) / f
                                              for f, p in waves))
            for step in range(0, width + 1, 8)
        ]  # fmt: skip
        pen.polygon(
            [(0, height), *outline, (width, height)],
            fill=_colour(hue + 0.45, 0.5, 0.55 - 0.17 * ridge),
        )

    image.save(path, "JPEG", quality=92)
    return path


def _colour(hue: float, saturation: float, value: float) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return round(red * 255), round(green * 255), round(blue * 255)
