"""The answer to EXPLAIN, in several forms."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from ..errors import InvalidSettingError
from ..rewriter.plan.document import Document
from ..rewriter.plan.json_codec import Json, encode
from .mermaid import render_mermaid
from .reading import read
from .text import render_text


class Explanation:
    """An explanation of a query: immutable, comparable, and rendered on demand.

    Parameters
    ----------
    document
        The explanation as a mapping with the keys ``version``, ``sql``, ``stages``, ``groups`` and ``advice``. It is
        copied.

    Raises
    ------
    PlanError
        If the document lacks a key or holds a value that JSON cannot hold.

    Examples
    --------
    >>> ex = Explanation({"version": 1, "sql": "SELECT 1", "stages": [], "groups": [], "advice": []})
    >>> print(ex)
    TriJoin SQL: no join of ours, the query goes to Spark unchanged
    └─ SQL
          SELECT 1
    """

    __slots__ = ("_document", "_json")

    _document: Document
    _json: str

    def __init__(self, document: Mapping[str, object]) -> None:
        copy = encode(document)
        object.__setattr__(self, "_document", read(copy if isinstance(copy, dict) else {}))
        object.__setattr__(self, "_json", json.dumps(copy, ensure_ascii=False, indent=2))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Explanation is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an Explanation is immutable: cannot delete {name}")

    def __eq__(self, other: object) -> bool:
        return self._json == other._json if isinstance(other, Explanation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._json)

    def __reduce__(self) -> tuple[type[Explanation], tuple[dict[str, Json]]]:
        return Explanation, (self.to_dict(),)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        groups = ", ".join(group.decision.node for group in self._document.groups)
        return f"<Explanation: {groups or 'no join groups'}>"

    def to_text(self, *, verbose: bool = False) -> str:
        """Return the explanation as a tree of text, as ``print`` shows it.

        Parameters
        ----------
        verbose
            Whether to show the plan after every stage of the rewrite, and not only the last one.
        """
        return render_text(self._document, every_stage=verbose)

    def to_dict(self) -> dict[str, Json]:
        """Return the document as plain dicts and lists; a new copy each time."""
        document: dict[str, Json] = json.loads(self._json)
        return document

    def to_json(self) -> str:
        """Return the document as JSON, indented, without a newline at the end."""
        return self._json

    def to_mermaid(self) -> str:
        """Return the join graphs and the plan as a Mermaid flowchart."""
        return render_mermaid(self._document)

    def to_html(self) -> str:
        """Return one HTML page with everything in it: it opens from disk and fetches nothing."""
        from .html import render_html

        return render_html(self._document)

    def save(self, path: str | Path) -> Path:
        """Write the explanation to a file, in the format that the file's suffix names.

        Parameters
        ----------
        path
            A file that ends in ``.html``, ``.json``, ``.mmd`` or ``.txt``. It is replaced.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        InvalidSettingError
            If the suffix is none of these.
        """
        target = Path(path)
        form = _SUFFIXES.get(target.suffix.lower())
        if form is None:
            raise InvalidSettingError("path", target, f"its suffix is none of {', '.join(_SUFFIXES)}")
        target.write_text(FORMS[form](self).rstrip("\n") + "\n", encoding="utf-8", newline="\n")
        return target

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        page = self.to_html()
        return (
            f'<iframe title="TriJoin SQL: explanation of a query" sandbox="allow-scripts" width="100%" height="720" '
            f'frameborder="0" srcdoc="{html.escape(page)}"></iframe>'
        )


#: The forms of an explanation by name.
FORMS: Mapping[str, Callable[[Explanation], str]] = MappingProxyType(
    {
        "text": Explanation.to_text,
        "json": Explanation.to_json,
        "mermaid": Explanation.to_mermaid,
        "html": Explanation.to_html,
    }
)

#: Suffixes of files, and the forms that they name.
_SUFFIXES = MappingProxyType(
    {
        **{".html": "html", ".htm": "html", ".json": "json", ".mmd": "mermaid", ".mermaid": "mermaid"},
        ".txt": "text",
    }
)
