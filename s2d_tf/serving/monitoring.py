"""What to watch of a model in service, as Prometheus metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import prometheus_client as prometheus

if TYPE_CHECKING:
    from s2d_tf.serving.servable import Servables

NATS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
CONFIDENCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST


class Monitor:
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

    def request(self, status: int, seconds: float, predicts: bool) -> None:
        """Counts a request that was answered or rejected."""
        self._requests.labels(status).inc()
        if predicts:
            self._seconds.observe(seconds)

    def answers(self, version: int, outputs: dict) -> None:
        """Adds answers, a dict of arrays, to the distributions."""
        for name, values in outputs.items():
            if name == "confidence":
                self._images.observe(len(values))
                _observe(self._confidence.labels(version), values)
            elif name.endswith("_uncertainty"):
                _observe(
                    self._uncertainty.labels(version, name.removesuffix("_uncertainty")), values
                )
            elif name == "abstain":
                self._abstentions.labels(version).inc(int(values.sum()))

    def text(self) -> bytes:
        """All metrics in Prometheus' format."""
        return prometheus.generate_latest(self.registry)


def _observe(histogram, values):
    for value in values.tolist():
        histogram.observe(value)
