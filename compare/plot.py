"""Line plots as SVG, for the programs of this folder: the look of the plots that `millrace bench --report FILE.svg` draws, and nothing to install."""

import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 76, 24, 66, 44
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --soft: #65707b; --rule: #e3e6e8;
  --c0: #1f6feb; --c1: #d9720b; --c2: #1a8f5a; --c3: #9250d6; --c4: #b3261e; --c5: #0f8b8d; --c6: #8a6d1a; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e8eaec; --soft: #98a2ac; --rule: #2f353b;
  --c0: #6aa9ff; --c1: #f5a04c; --c2: #54c48c; --c3: #bf8ff2; --c4: #ff8a80; --c5: #5cc9cb; --c6: #d3b45a; } }
svg { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
text { fill: var(--ink); } .tick { fill: var(--soft); } .title { font-size: 14px; font-weight: 600; }
.grid { stroke: var(--rule); } .line { fill: none; stroke-width: 2; stroke-linejoin: round; } .bar { stroke-width: 1.5; }
"""


def short(number):
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor:
            return f"{number / factor:g}{letter}"
    return f"{number:g}"


def ticks(low, high, is_log):
    if is_log:
        return [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    step = 10 ** math.floor(math.log10((high - low) / 4 or 1))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    return [low + step * at for at in range(int((high - low) / step + 1e-9) + 1)]


def lines(title, x_label, y_label, series, log_x=False, log_y=False, x_ticks=None):
    """`series`: name -> [(x, y)] or [(x, y, least, most)]; a logarithmic axis leaves out what is not above 0."""
    series = {
        name: [point for point in points if (not log_x or point[0] > 0) and (not log_y or point[1] > 0)]
        for name, points in series.items()
    }
    xs = [point[0] for points in series.values() for point in points]
    ys = [value for points in series.values() for point in points for value in point[1:]]
    if not xs:
        raise ValueError("a plot of nothing")
    low_x = min(xs) if log_x else min(0, *xs)
    y_ticks = ticks(min(ys) if log_y else 0, max(ys), log_y)
    low_y, high_y = (y_ticks[0], y_ticks[-1]) if log_y else (0, max(ys) * 1.05 or 1)
    x_ticks = x_ticks or ticks(low_x, max(xs), log_x)
    high_x = max(xs)

    def place(value, low, high, is_log):
        if is_log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        return (value - low) / ((high - low) or 1)

    def at_x(value):
        return LEFT + place(value, low_x, high_x, log_x) * (WIDTH - LEFT - RIGHT)

    def at_y(value):
        return HEIGHT - BOTTOM - place(value, low_y, high_y, log_y) * (HEIGHT - TOP - BOTTOM)

    def text(x, y, said, kind="", anchor="start"):
        return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(said)}</text>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--paper)"/>',
        text(LEFT, 20, title, "title"),
        text((LEFT + WIDTH) / 2, HEIGHT - 8, x_label, "tick", "middle"),
        f'<g transform="rotate(-90 14 {HEIGHT / 2})">{text(14, HEIGHT / 2, y_label, "tick", "middle")}</g>',
    ]
    for tick in y_ticks:
        if low_y <= tick <= high_y:
            y = at_y(tick)
            out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            out.append(text(LEFT - 8, y + 4, short(tick), "tick", "end"))
    for tick in x_ticks:
        if low_x <= tick <= high_x:
            out.append(text(at_x(tick), HEIGHT - BOTTOM + 18, short(tick), "tick", "middle"))
    for number, (name, points) in enumerate(series.items()):
        colour = f"var(--c{number % 7})"
        key_x, key_y = LEFT + number % 4 * 160, 38 + number // 4 * 16
        out.append(f'<rect x="{key_x}" y="{key_y - 9}" width="10" height="10" fill="{colour}"/>')
        out.append(text(key_x + 15, key_y, name))
        along = " ".join(f"{at_x(point[0]):.1f},{at_y(point[1]):.1f}" for point in points)
        out.append(f'<polyline class="line" stroke="{colour}" points="{along}"/>')
        for point in points:
            if len(point) == 4:
                x = at_x(point[0])
                out.append(
                    f'<line class="bar" stroke="{colour}" x1="{x:.1f}" x2="{x:.1f}" '
                    f'y1="{at_y(point[2]):.1f}" y2="{at_y(point[3]):.1f}"/>'
                )
    return "\n".join(out) + "\n</svg>\n"
