"""Half precision where the figures do not change, and weights that are stored only once."""

import dataclasses

from s2d_tf import files, models
from s2d_tf.data import MissingDataError
from s2d_tf.evaluation import run_evaluation
from s2d_tf.publishing.checks import PublishError
from s2d_tf.storage import entries, weights

# Half of the last digit that the paper's tables print (0.1 per cent; NLL a thousandth).
TOLERANCE = 5e-4
FIGURES = ("accuracy", "nll", "ece", "brier", "auroc", "aupr")


@dataclasses.dataclass(frozen=True)
class Published:
    """Weights as they are in an entry's folder, and what they answer."""

    predictor: models.Predictor
    weights: tuple
    metrics: dict


def choose(run, recipe, predictor, metrics, folder, zoo_dir, data_dir, precision, log):
    """Writes the weights into the folder, in half precision if the figures allow it.

    Args:
        run: the run that is published.
        recipe: that of the entry.
        predictor: what draws members as the entry does; it has the run's own weights.
        metrics: those of the run's own weights, or None where they are not known.
        folder: where to write.
        zoo_dir: other entries, whose weights are referred to instead of stored again.
        data_dir, precision, log: as for `publish`.

    Returns:
        `Published`.
    """
    evaluate = _Evaluation(run, recipe, data_dir, log)
    if metrics is None:
        log("evaluating the run's own weights")
        metrics = evaluate(predictor)
    # A deviation of 1e-5 has one or two digits in half precision.
    if precision == "auto" and recipe.draws != "swag":
        listed = _write(run, predictor, folder, zoo_dir, half=True)
        log("evaluating the weights in half precision")
        halved = evaluate(predictor)
        moved = {
            key: abs(halved[key] - metrics[key])
            for key in figures(metrics)
            if key in halved and abs(halved[key] - metrics[key]) > TOLERANCE
        }
        if not moved:
            return Published(predictor, listed, halved)
        worst = max(moved, key=moved.get)
        log(f"float32 is kept: in half precision {worst} moves by {moved[worst]:.2g}")
        for item in listed:
            (folder / item.file).unlink(missing_ok=True)
    return Published(predictor, _write(run, predictor, folder, zoo_dir, half=False), metrics)


def figures(metrics):
    """The keys of the figures that tables show."""
    return [key for key in metrics if len(p := key.split("/")) > 1 and p[1] in FIGURES]


class _Evaluation:
    """All numbers of a predictor, as `s2d evaluate` makes them."""

    def __init__(self, run, recipe, data_dir, log):
        self.run, self.recipe, self.data_dir, self.log = run, recipe, data_dir, log
        self.cache = run_evaluation.cache_directory(run)

    def __call__(self, predictor):
        try:
            found, _ = run_evaluation.evaluate_predictor(
                predictor, self.recipe, self.data_dir, self.cache, log=self.log
            )
        except MissingDataError as error:
            raise PublishError(
                f"{error} To publish without it: --precision=float32, for an evaluated run."
            ) from None
        facts = {"run/name": self.recipe.name, "run/seed": self.run.seed}
        return found | facts | {"run/split": self.run.split}


def _write(run, predictor, folder, zoo_dir, half):
    """Writes weights files for all networks; the predictor then has what they hold.

    Returns:
        Tuple of `WeightsFile`.
    """
    precision = "float16" if half else "float32"
    parts = run.members or [run]
    listed = []
    for index, (part, network) in enumerate(zip(parts, predictor.networks, strict=True)):
        source = files.sha256(part.weights())
        weights.load(network, part.weights(), source)
        item = _stored_already(zoo_dir, folder, source, precision)
        if item is None:
            name = f"member_{index}.weights.h5" if run.members else "model.weights.h5"
            weights.save(network, folder / name, half=half)
            digest = files.sha256(folder / name)
            item = entries.WeightsFile(name, digest, precision, part.seed, source)
        path = (zoo_dir / item.entry if item.entry else folder) / item.file
        weights.load(network, path, item.sha256)
        listed.append(item)
    return tuple(listed)


def _stored_already(zoo_dir, folder, source, precision):
    """The weights of the same run in another entry, so that they are not stored twice."""
    for path in sorted(zoo_dir.glob(f"[!.]*/{entries.ENTRY}")):
        if folder.name.endswith(f"-{path.parent.name}"):
            continue
        for item in entries.read(path.read_bytes(), path).weights:
            if item.entry is None and (item.source, item.precision) == (source, precision):
                return dataclasses.replace(item, entry=path.parent.name)
    return None
