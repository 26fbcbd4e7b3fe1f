"""Line charts as SVG."""

import math
from html import escape

WIDTH, HEIGHT = 780, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 270, 40, 52
COLOURS = ("#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#d68910", "#117a8b", "#7b241c", "#566573")


def ticks(low, high, count=5):
    """Round numbers from `low` to `high`, about `count` of them."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / count))
    step = next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= count)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def label(value):
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def chart(title, x_label, y_label, series, x_log=False):
    """`series`: (name, [(x, y), ...]) each; points ascending in x. Empty series are left out."""
    series = [(name, points) for name, points in series if points]
    xs = [x for _, points in series for x, _ in points] or [1]
    ys = [y for _, points in series for _, y in points] or [0]
    place = math.log if x_log else float
    x_low, x_high = place(min(xs)), place(max(xs))
    margin = (max(ys) - min(ys)) * 0.05 or 0.5
    y_low, y_high = min(ys) - margin, max(ys) + margin

    def at(x, y):
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        across = (place(x) - x_low) / ((x_high - x_low) or 1)
        up = (y - y_low) / (y_high - y_low)
        return LEFT + across * (right - LEFT), bottom - up * (bottom - TOP)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="16" y="{HEIGHT / 2:.0f}" text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2:.0f})">'
        f"{escape(y_label)}</text>",
    ]
    for tick in ticks(y_low, y_high):
        _, y = at(min(xs), tick)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label(tick)}</text>')
    for tick in sorted(set(xs)) if x_log else ticks(min(xs), max(xs)):
        x, _ = at(tick, y_low)
        out.append(f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v5" stroke="#444"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label(tick)}</text>')
    for index, (name, points) in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        dash = "" if index < len(COLOURS) else ' stroke-dasharray="5 3"'
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        out.extend(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>' for x, y in (at(*point) for point in points)
        )
        y = TOP + 10 + 18 * index
        x = WIDTH - RIGHT + 12
        out.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="2"{dash}/>')
        out.append(f'<text x="{x + 24}" y="{y}" font-size="11">{escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
