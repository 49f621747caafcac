"""What to watch of a server: logs as JSON lines, and Prometheus metrics."""

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import prometheus_client as prometheus

from s2d_tf.serving.servable import Servables

REPEAT_SECONDS = 10.0
"""How long a warning is not repeated."""
MAX_MESSAGES = 1000
CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST
NATS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
CONFIDENCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)


def configure_logs(level: str) -> None:
    """Makes the loggers of the server write JSON lines to the standard error.

    Not by `logging.config`, which closes the handlers of all other loggers.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    handler.addFilter(RepetitionFilter())
    for name in ("s2d_tf.serving", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


class JSONFormatter(logging.Formatter):
    """A record as one line; `extra={"fields": {...}}` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class RepetitionFilter(logging.Filter):
    """Passes a warning once in `REPEAT_SECONDS`, with how often it was held back before.

    So a hostile client cannot fill a disk with the log.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[Any, Any] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        key, now = (record.name, record.getMessage()[:200]), self._clock()
        if len(self._seen) >= MAX_MESSAGES:
            self._seen.clear()
        last, held = self._seen.get(key, (-REPEAT_SECONDS, 0))
        is_new = now - last >= REPEAT_SECONDS
        self._seen[key] = (now, 0) if is_new else (last, held + 1)
        if held:
            record.fields = {"repeated": held}
        return is_new


class Metrics:
    """Counts and distributions of one server.

    Args:
        servables: `Servables`, for the loaded version.
    """

    def __init__(self, servables: Servables) -> None:
        self.registry = prometheus.CollectorRegistry()
        own = {"registry": self.registry}
        self._requests = prometheus.Counter(
            "s2d_requests", "Requests by HTTP status.", ["status"], **own
        )
        self._seconds = prometheus.Histogram(
            "s2d_request_seconds", "Time to receive and answer a predict request.", **own
        )
        self._images = prometheus.Histogram(
            "s2d_request_images",
            "Images in an answered request.",
            buckets=[2**i for i in range(11)],
            **own,
        )
        self._confidence = prometheus.Histogram(
            "s2d_confidence",
            "Largest probability of an answer.",
            ["version"],
            buckets=CONFIDENCES,
            **own,
        )
        self._uncertainty = prometheus.Histogram(
            "s2d_uncertainty_nats",
            "Uncertainty of an answer: total, data or knowledge.",
            ["version", "kind"],
            buckets=NATS,
            **own,
        )
        self._abstentions = prometheus.Counter(
            "s2d_abstentions", "Answers from which the model abstained.", ["version"], **own
        )
        prometheus.Gauge("s2d_model_version", "The loaded version.", **own).set_function(
            lambda: servables.current.version
        )
        prometheus.Gauge(
            "s2d_failed_versions", "Version folders that could not be loaded.", **own
        ).set_function(lambda: len(servables.failed))

    def add_request(self, status: int, seconds: float, predicts: bool) -> None:
        """Counts a request that was answered or rejected."""
        self._requests.labels(status).inc()
        if predicts:
            self._seconds.observe(seconds)

    def add_answers(self, version: int, outputs: dict) -> None:
        """Adds answers, a dict of arrays, to the distributions."""
        self._images.observe(len(next(iter(outputs.values()))))
        histograms = {
            f"{kind}_uncertainty": self._uncertainty.labels(version, kind)
            for kind in ("total", "data", "knowledge")
        } | {"confidence": self._confidence.labels(version)}
        for name in histograms.keys() & outputs.keys():
            for value in outputs[name].tolist():
                histograms[name].observe(value)
        if "abstain" in outputs:
            self._abstentions.labels(version).inc(int(outputs["abstain"].sum()))

    def text(self) -> bytes:
        """All metrics in Prometheus' format."""
        return prometheus.generate_latest(self.registry)
