"""``explain --format lineage``: OpenLineage's facet ``columnLineage`` of a file's queries, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any
from urllib.parse import urlsplit

from ..rewriter.names.lineage import Inputs, Lineage, lineage
from ..rewriter.names.resolve import resolve
from ..rewriter.options import Settings
from ..rewriter.sql.catalog import DdlCatalog
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.statement import View, parse_statement
from .paths import local_path
from .statements import CreateStream

_SCHEMA = "https://openlineage.io/spec/facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet"

#: Where a dataset is that has no name outside of Spark.
_NOWHERE = "default"


@dataclass(slots=True)
class Facets:
    """Makes the facets of a file's statements; it has to see its views too.

    Parameters
    ----------
    streams
        Those that the file declares.
    """

    streams: Sequence[CreateStream]
    _views: dict[str, Lineage] = field(default_factory=dict)

    def of(self, sql: str, catalog: DdlCatalog, settings: Settings) -> dict[str, Any]:
        """Return a query's facet under its name; the lineage of a view is kept for what reads it."""
        statement = parse_statement(sql)
        assert statement.tree is not None
        found = lineage(resolve(statement.tree.copy(), catalog, settings), self._views)
        if (view := statement.view) is not None:
            name = tokenize(view.name)[0].text.lower()
            self._views[f"global_temp.{name}" if view.everywhere else name] = found = _renamed(found, view)
        facet = {
            "_producer": _producer(),
            "_schemaURL": _SCHEMA,
            "fields": {name: {"inputFields": self._inputs(of)} for name, of in (found.columns or {}).items()},
            "dataset": self._inputs(found.rows),
        }
        return {"columnLineage": facet}

    def _inputs(self, of: Inputs) -> list[dict[str, Any]]:
        known = {stream.name.text.lower(): _dataset(stream) for stream in self.streams}
        found = []
        for (relation, column), kinds in sorted(of.items()):
            namespace, name = known.get(relation.lower(), (_NOWHERE, relation))
            made = [{"type": kind, "subtype": subtype} for kind, subtype in sorted(kinds)]
            found.append({"namespace": namespace, "name": name, "field": column, "transformations": made})
        return found


def _renamed(found: Lineage, view: View) -> Lineage:
    if found.columns is None or len(view.columns) != len(found.columns):
        return found
    return replace(found, columns=dict(zip(view.columns, found.columns.values(), strict=True)))


def _dataset(stream: CreateStream) -> tuple[str, str]:
    """Return what OpenLineage calls the data that a stream reads: a namespace and a name."""
    topic, servers = stream.options.text("subscribe"), stream.options.text("kafka.bootstrap.servers")
    if topic is not None and servers is not None:
        return f"kafka://{servers.split(',')[0].strip()}", topic
    if (path := stream.options.text("path")) is not None:
        local, parts = local_path(path), urlsplit(path)
        return ("file", str(local)) if local else (f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/")
    return _NOWHERE, stream.name.text


def _producer() -> str:
    """Return our address, as the package was built with it."""
    try:
        addresses = metadata("trijoin-sql").get_all("Project-URL") or []
    except PackageNotFoundError:
        addresses = []
    found = (url for label, _, url in (one.partition(", ") for one in addresses) if label == "Repository")
    return next(found, "urn:trijoin-sql")
