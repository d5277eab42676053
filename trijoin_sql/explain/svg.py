"""SVG in Python: elements, and roughly measured text; nothing depends on the machine."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Literal

from .wording import display_width

#: Width of a character of each font, as a part of its size; of the proportional ones an average of the widest in use.
_WIDTHS = {"mono": 0.602, "sans": 0.545, "bold": 0.64}


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: left, top, width and height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower side."""
        return self.y + self.height

    @property
    def cx(self) -> float:
        """The middle from left to right."""
        return self.x + self.width / 2

    @property
    def cy(self) -> float:
        """The middle from top to bottom."""
        return self.y + self.height / 2

    def overlaps(self, other: Box, gap: float = 0) -> bool:
        """Return whether two boxes are closer than ``gap``."""
        return (
            self.x < other.right + gap
            and other.x < self.right + gap
            and self.y < other.bottom + gap
            and other.y < self.bottom + gap
        )

    def grown(self, margin: float) -> Box:
        """Return the box with a margin around it."""
        return Box(self.x - margin, self.y - margin, self.width + 2 * margin, self.height + 2 * margin)


def around(boxes: list[Box], margin: float) -> Box:
    """Return the smallest box around others, with a margin."""
    x, y = min(box.x for box in boxes), min(box.y for box in boxes)
    right, bottom = max(box.right for box in boxes), max(box.bottom for box in boxes)
    return Box(x, y, right - x, bottom - y).grown(margin)


def number(value: float) -> str:
    """Return a coordinate with at most one digit after the point."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def text_width(text: str, size: float, font: Literal["mono", "sans", "bold"] = "mono") -> float:
    """Return the approximate width of a text, in pixels."""
    return display_width(text) * size * _WIDTHS[font]


def element(tag: str, *children: str, **attributes: object) -> str:
    """Return an element; attribute names take ``_`` for ``-`` and a trailing one for reserved words.

    Children are markup. Values of attributes are escaped, None values are left out, and floats are rounded.
    """
    parts = [tag]
    for name, value in attributes.items():
        if value is not None:
            shown = number(value) if isinstance(value, int | float) else str(value)
            parts.append(f'{name.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    return f"<{' '.join(parts)}>{''.join(children)}</{tag}>"


def text(x: float, y: float, content: str, **attributes: object) -> str:
    """Return a line of text; ``content`` is escaped."""
    printable = "".join(char if char.isprintable() else " " for char in content)
    return element("text", escape(printable), x=x, y=y, **attributes)


def title(content: str) -> str:
    """Return a tooltip."""
    return element("title", escape(content))


def rect(box: Box, *children: str, radius: float = 0, **attributes: object) -> str:
    """Return a rectangle."""
    return element(
        "rect", *children, x=box.x, y=box.y, width=box.width, height=box.height, rx=radius or None, **attributes
    )


def path(*commands: object, **attributes: object) -> str:
    """Return a path; numbers among the commands are rounded."""
    data = " ".join(number(item) if isinstance(item, int | float) else str(item) for item in commands)
    return element("path", d=data, **attributes)


def arrow(x: float, y: float, css_class: str) -> str:
    """Return the head of an arrow that points right, with its tip at (x, y)."""
    back, half = x - 7, 7 * 0.55
    return path("M", x, y, "L", back, y - half, "L", back, y + half, "Z", class_=f"head {css_class}")


def picture(view: Box, label: str, *children: str, css_class: str) -> str:
    """Return a whole picture.

    Parameters
    ----------
    view
        The part of the plane that it shows.
    label
        A description for people who do not see the picture.
    children
        Markup.
    css_class
        Its class.
    """
    shown = " ".join(number(value) for value in (view.x, view.y, view.width, view.height))
    return element(
        "svg",
        *children,
        class_=css_class,
        viewBox=shown,
        width=view.width,
        height=view.height,
        role="img",
        aria_label=label,
        preserveAspectRatio="xMidYMid meet",
    )
