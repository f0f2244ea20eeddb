"""Plot the share of questions with a right memory among the first 1, 2, ... hits."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 200, 44, 48
COLOURS = ("#b3261e", "#1f5fbf", "#2e7d32", "#8e24aa", "#ef6c00", "#00838f", "#6d4c41", "#c2185b", "#455a64", "#9e9d24")


def render_svg(title: str, series: Mapping[str, Sequence[float]]) -> str:
    """Draw one line per name; the first one, for all questions, is the thickest."""
    longest = max(map(len, series.values()))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        svg_text((LEFT + WIDTH - RIGHT) / 2, 24, title, "middle", size=15),
        svg_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "right memory among the first n hits", "middle"),
        *(_draw_grid_line(share) for share in range(0, 101, 20)),
        *(svg_text(_x_of(place, longest), HEIGHT - BOTTOM + 18, str(place + 1), "middle") for place in range(longest)),
    ]
    for number, (name, shares) in enumerate(series.items()):
        parts += _draw_series(name, shares, number, longest)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x_of(place: int, longest: int) -> float:
    return LEFT + place * (WIDTH - RIGHT - LEFT) / max(longest - 1, 1)


def _y_of(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def _draw_grid_line(percent: int) -> str:
    y = _y_of(percent / 100)
    rule = f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
    return rule + svg_text(LEFT - 8, y + 4, f"{percent} %", "end")


def _draw_series(name: str, shares: Sequence[float], number: int, longest: int) -> list[str]:
    colour, width = COLOURS[number % len(COLOURS)], 1.5 if number else 4
    points = " ".join(f"{_x_of(place, longest):.1f},{_y_of(share):.1f}" for place, share in enumerate(shares))
    key, beside = WIDTH - RIGHT + 16, TOP + 16 + 20 * number
    stroke = f'stroke="{colour}" stroke-width="{width}"'
    return [
        f'<polyline points="{points}" fill="none" {stroke}/>',
        f'<line x1="{key}" y1="{beside - 4}" x2="{key + 22}" y2="{beside - 4}" {stroke}/>',
        svg_text(key + 28, beside, f"{name} {100 * shares[min(4, len(shares) - 1)]:.0f} % in 5"),
    ]


def svg_text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#222">{escape(words)}</text>'
