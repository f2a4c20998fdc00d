"""Pictures inside an HTML page: curves as SVG, small images as PNG. Nothing is downloaded."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape

import torch
from torch import Tensor

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 14, 44
MOST_POINTS = 400  # of a line; a screen cannot show more
TICKS = 4
SMALLEST, LARGEST = 4, 96  # pixels of a picture's side


def curve(title: str, across: str, lines: Sequence[tuple[str, Points]], from_zero: bool = True) -> str:
    """An SVG chart with a line for each name, x rising; a single point becomes a dot.

    Parameters:
        title: what is drawn; the alternative text has the title, and each line's first and last value.
        across: what the horizontal axis counts.
        lines: name -> points; points that are not finite are left out.
        from_zero: whether the vertical axis begins at 0.
    """
    drawn = [(name, kept) for name, points in lines if (kept := _thinned(points))]
    if not drawn:
        return f"<p>{escape(title)}: nothing was logged.</p>"
    xs = [x for _, points in drawn for x, _ in points]
    ys = [y for _, points in drawn for _, y in points] + ([0.0] if from_zero else [])
    first, last = min(xs), max(xs)
    marks = ticks(min(ys), max(ys))
    low, high = marks[0], marks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        part = (x - first) / (last - first) if last > first else 0.5
        return (
            LEFT + part * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM),
        )

    said = "; ".join(
        f"{name} from {points[0][1]:.4g} to {points[-1][1]:.4g}"
        if len(points) > 1
        else f"{name} {points[0][1]:.4g}"
        for name, points in drawn
    )
    shapes = [_grid(marks, place), _axis(across, first, last)]
    for number, (_, points) in enumerate(drawn):
        spots = [place(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        shapes.append(f'<polyline class="line{number}" points="{path}"/>' if len(spots) > 1 else "")
        if len(spots) <= 20:
            shapes += [f'<circle class="dot{number}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in spots]
    alternative = escape(f"{title} by {across}: {said}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{alternative}">'
        f"<title>{alternative}</title>{''.join(shapes)}</svg>"
    )


def _grid(marks: Sequence[float], place: object) -> str:
    assert callable(place)
    parts = []
    for mark in marks:
        _, y = place(0, mark)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{mark:.6g}</text>'
        )
    return "".join(parts)


def _axis(across: str, first: float, last: float) -> str:
    y = HEIGHT - BOTTOM + 20
    middle = (LEFT + WIDTH - RIGHT) / 2
    if last <= first:
        return f'<text x="{middle}" y="{y}" text-anchor="middle">{escape(across)} {first:.6g}</text>'
    return (
        f'<text x="{LEFT}" y="{y}">{first:.6g}</text>'
        f'<text x="{middle}" y="{y}" text-anchor="middle">{escape(across)}</text>'
        f'<text x="{WIDTH - RIGHT}" y="{y}" text-anchor="end">{last:.6g}</text>'
    )


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, evenly spaced, from at most `low` to at least `high`; at least two."""
    span = high - low or abs(high) or 1.0
    rough = span / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(begin, max(end, begin + 1) + 1)]


def _thinned(points: Points) -> list[tuple[float, float]]:
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    every = -(-len(finite) // MOST_POINTS)
    return (
        finite[::every] + (finite[-1:] if every > 1 and (len(finite) - 1) % every else []) if finite else []
    )


def picture(values: Tensor) -> Tensor | None:
    """Bytes (height, width) or (height, width, 3) of an input; None unless it has the shape of a picture.

    Pictures are (h, w), (1, h, w), (3, h, w), (h, w, 1) and (h, w, 3). Bytes stay unchanged; of other numbers the
    smallest becomes black, the largest white. A large picture loses rows and columns.
    """
    if values.is_complex() or values.dim() not in (2, 3):
        return None
    values = values.detach().cpu()
    if values.dim() == 3 and values.shape[0] in (1, 3):
        values = values.permute(1, 2, 0)
    if values.dim() == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if (values.dim() == 3 and values.shape[2] != 3) or min(values.shape[:2]) < SMALLEST:
        return None
    every = -(-max(values.shape[:2]) // LARGEST)
    values = values[::every, ::every]
    if values.dtype == torch.uint8:
        return values
    values = values.double().nan_to_num(0.0, 0.0, 0.0)
    low, high = values.min(), values.max()
    return ((values - low) / (high - low).clamp(min=1e-12) * 255).round().to(torch.uint8)


def png(pixels: Tensor) -> bytes:
    """The PNG file of bytes (height, width), grey, or (height, width, 3), red, green, blue.

    Source of the format: W3C, Portable Network Graphics, third edition.
    """
    height, width = pixels.shape[:2]
    colour = 2 if pixels.dim() == 3 else 0
    rows = torch.zeros(height, 1 + pixels[0].numel(), dtype=torch.uint8)  # each begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    packed = zlib.compress(rows.numpy().tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def data_url(file: bytes) -> str:
    """`file`, a PNG, as the source of an `img`."""
    return f"data:image/png;base64,{base64.b64encode(file).decode()}"
