"""An SVG plot with logarithmic axes: memories against milliseconds."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

from holdfast.features.recall.quality.chart import svg_text

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 44, 48
COLOURS = ("#b3261e", "#1f5fbf", "#d98f8a", "#8fb1e0")
DASHES = ("", "", "5 4", "5 4")

Points = Sequence[tuple[float, float]]


class Scale:
    """Map a value between two decades to a position."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.decades = range(
            floor(log10(min(values))), max(ceil(log10(max(values))), floor(log10(min(values))) + 1) + 1
        )
        self._begin, self._per_decade = begin, (end - begin) / (len(self.decades) - 1)

    def __call__(self, value: float) -> float:
        return self._begin + (log10(value) - self.decades[0]) * self._per_decade


def svg(title: str, series: Mapping[str, Points]) -> str:
    """Draw named lines on a grid of decades."""
    across = Scale([x for points in series.values() for x, _ in points], LEFT, WIDTH - RIGHT)
    up = Scale([y for points in series.values() for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        svg_text(WIDTH / 2 - 40, 24, title, "middle", size=15),
        svg_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "memories", "middle"),
        svg_text(10, TOP - 12, "milliseconds"),
        *grid(across, up),
    ]
    for number, (name, points) in enumerate(series.items()):
        parts += line(name, points, across, up, number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def grid(across: Scale, up: Scale) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for decade in across.decades:
        x = across(10.0**decade)
        parts += [rule(x, TOP, x, bottom), svg_text(x, bottom + 18, f"{10**decade:,}", "middle")]
    for decade in up.decades:
        y = up(10.0**decade)
        parts += [rule(LEFT, y, right, y), svg_text(LEFT - 8, y + 4, f"{10.0**decade:g}", "end")]
    return parts


def line(name: str, points: Points, across: Scale, up: Scale, number: int) -> list[str]:
    """Draw a series: line, points and name."""
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    places = [(across(x), up(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    beside = TOP + 16 + 20 * number
    key = WIDTH - RIGHT + 12
    stroke = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
    return [
        f'<polyline points="{path}" fill="none" {stroke}/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places),
        f'<line x1="{key}" y1="{beside - 4}" x2="{key + 22}" y2="{beside - 4}" {stroke}/>',
        svg_text(key + 28, beside, name),
    ]


def rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'
