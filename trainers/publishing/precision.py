"""Half precision where no metric changes, and weights that are stored only once."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.data import MissingDataError
from s2d_tf.evaluation import run_evaluation
from s2d_tf.zoo import entries, weights
from s2d_tf.zoo.layout import ENTRY, weights_file

from .checks import PublishError

if TYPE_CHECKING:
    from s2d_tf.zoo import TrainedModel

# Half of the last digit that the paper's tables print (0.1 percent; NLL a thousandth).
TOLERANCE = 5e-4
ROUNDING = 1e-9  # 0.7535 - 0.753 is above 5e-4 in floating point.
METRICS = ("accuracy", "nll", "ece", "brier", "auroc", "aupr")


def write_weights(
    opened: TrainedModel,
    metrics: dict | None,
    folder: pathlib.Path,
    target: pathlib.Path,
    data_dir: PathLike | None,
    precision: str,
    log: Callable[[str], Any],
) -> tuple[tuple[entries.WeightsFile, ...], dict]:
    """Writes the weights into the folder, in half precision if the metrics allow it.

    Args:
        opened: the run, drawn as the entry is; its predictor then has what was written.
        metrics: those of the run's own weights, or None where they are not known.
        folder: where to write.
        target: where the folder will be; weights of the entries beside it are referred to instead
            of stored again.
        data_dir, precision, log: as for `publish`.

    Returns:
        A tuple of `entries.WeightsFile`, and the metrics of the weights as they are written.
    """
    if metrics is None:
        log("evaluating the run's own weights")
        metrics = _evaluate(opened, data_dir, log)
    # A deviation of 1e-5 has one or two digits in half precision.
    if precision == "auto" and opened.recipe.draws != "swag":
        listed = _write(opened, folder, target, "float16")
        log("evaluating the weights in half precision")
        halved = _evaluate(opened, data_dir, log)
        moved = {k: abs(halved[k] - metrics[k]) for k in table_metrics(metrics) if k in halved}
        worst = max(moved, key=lambda name: moved[name], default=None)
        if worst is None or moved[worst] <= TOLERANCE + ROUNDING:
            return listed, halved
        log(f"float32 is kept: in half precision {worst} moves by {moved[worst]:.2g}")
        for item in listed:
            (folder / item.file).unlink(missing_ok=True)
    return _write(opened, folder, target, "float32"), metrics


def table_metrics(metrics: dict) -> list[str]:
    """The keys of the metrics that tables show."""
    return [key for key in metrics if len(p := key.split("/")) > 1 and p[1] in METRICS]


def _evaluate(opened, data_dir, log):
    """All metrics of a predictor, as `s2d evaluate` makes them."""
    cache = run_evaluation.cache_directory(opened.run)
    try:
        return run_evaluation.evaluate_opened(opened, data_dir, cache, log=log)[0]
    except MissingDataError as error:
        raise PublishError(
            f"{error} To publish without the data, pass --precision=float32, for an evaluated run."
        ) from None


def _write(opened, folder, target, precision):
    """Writes a weights file for each network, unless another entry has it; then loads it."""
    parts, listed = opened.run.members or [opened.run], []
    for index, (part, network) in enumerate(zip(parts, opened.predictor.networks, strict=True)):
        source = files.sha256(part.weights())
        weights.load(network, part.weights(), source)
        item = _stored_already(target, source, precision)
        if item is None:
            name = weights_file(index if opened.run.members else None)
            weights.save(network, folder / name, half=precision == "float16")
            digest = files.sha256(folder / name)
            item = entries.WeightsFile(name, digest, precision, part.seed, source, entry=None)
        place = target.parent / item.entry if item.entry else folder
        weights.load(network, place / item.file, item.sha256)
        listed.append(item)
    return tuple(listed)


def weights_beside(target: pathlib.Path) -> Iterator[tuple[str, entries.WeightsFile]]:
    """The name and each `entries.WeightsFile` of the other entries in the same zoo."""
    for path in sorted(target.parent.glob(f"[!.]*/{ENTRY}")):
        if path.parent != target:
            record = entries.read(path.read_bytes(), path)
            yield from ((path.parent.name, item) for item in record.weights)


def _stored_already(target, source, precision):
    """The weights of the same run in another entry, so that they are not stored twice."""
    wanted = None, source, precision
    same = (
        dataclasses.replace(item, entry=name)
        for name, item in weights_beside(target)
        if (item.entry, item.source, item.precision) == wanted
    )
    return next(same, None)
