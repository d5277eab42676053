"""The numbers of a session's queries for Prometheus: as OpenMetrics text on a port, until it is closed."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import UnavailableError
from ..spark.versions import check_is_session

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql import SparkSession


class MetricsServer:
    """What `metrics_server` returns: a server that Prometheus scrapes, in threads of this process.

    Attributes
    ----------
    url : str
        What to scrape.
    registry : prometheus_client.CollectorRegistry
        What it serves. ``prometheus_client.push_to_gateway`` takes it too, where nothing can reach the driver.

    Parameters
    ----------
    registry, port, host
        What it serves, and where.
    """

    def __init__(self, registry: CollectorRegistry, port: int, host: str) -> None:
        from prometheus_client import start_http_server

        self.registry = registry
        self._stop_counting: Callable[[], None] = lambda: None
        self._server, self._thread = start_http_server(port, host, registry)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}/metrics"

    def count(self, spark: SparkSession) -> None:
        """Count what the queries of a session do from now on.

        Parameters
        ----------
        spark
            The session.
        """
        self._stop_counting = count_into(self.registry, spark)

    def close(self) -> None:
        """Stop serving and counting; the queries run on."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._stop_counting()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MetricsServer: {self.url}>"


def metrics_server(spark: SparkSession, port: int = 0, host: str = "127.0.0.1") -> MetricsServer:
    """Serve the numbers of a session's streaming queries to Prometheus, as OpenMetrics text at ``/metrics``.

    It counts from its start on, so call it before the queries start. It needs ``pip install 'trijoin-sql[metrics]'``.

    Parameters
    ----------
    spark
        A classic or Spark Connect session.
    port
        The port; 0 takes any free one.
    host
        The address to listen at. By default it is this machine only; ``0.0.0.0`` is any, and nobody is asked for a
        password.

    Returns
    -------
    MetricsServer
        It has the ``url``, and ``close()``; it is a context manager too.

    Raises
    ------
    UnavailableError
        The package prometheus-client is not installed.
    OSError
        The port is taken.
    TypeError
        ``spark`` is no Spark session.

    Examples
    --------
    >>> with metrics_server(spark, 9464) as server:  # doctest: +SKIP
    ...     query.awaitTermination()
    """
    check_is_session(spark)
    server = MetricsServer(new_registry(), port, host)
    server.count(spark)
    return server


def new_registry() -> CollectorRegistry:
    """Return a registry of prometheus-client, without numbers.

    Raises
    ------
    UnavailableError
        That package is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError:
        reason, hint = "prometheus-client is not installed", "pip install 'trijoin-sql[metrics]'"
        raise UnavailableError("numbers for Prometheus", reason, hint) from None
    return CollectorRegistry()


def count_into(registry: CollectorRegistry, spark: SparkSession) -> Callable[[], None]:
    """Let a registry have the numbers of a session's queries from now on; return what ends that."""
    from .open_metrics import Queries

    queries = Queries(spark)
    spark.streams.addListener(queries)
    registry.register(queries)

    def stop() -> None:
        registry.unregister(queries)
        spark.streams.removeListener(queries)

    return stop
