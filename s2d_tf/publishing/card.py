"""The model card of an entry: a README.md made from its record, so that it cannot disagree."""

from s2d_tf.data.registry import info
from s2d_tf.evaluation import names

WHAT = {
    "labels": "a plain classifier, trained on labels with cross-entropy",
    "self": "trained by self-distribution distillation (S2D): it learns a Dirichlet over class "
    "probabilities from its own noisy predictions",
    "teachers": "a student that learned from the predictions of an ensemble",
}
DRAWS = {
    "point": "It predicts in one forward pass.",
    "dropout": "It predicts with {n} members, drawn by Monte Carlo dropout from fixed masks.",
    "swag": "It predicts with {n} members, weights drawn from a diagonal Gaussian (SWAG-Diag).",
    "ensemble": "It predicts with {n} members, a network each, trained from different seeds.",
}
CITATION = """\
@inproceedings{fathullah2022s2d,
  title     = {Self-Distribution Distillation: Efficient Uncertainty Estimation},
  author    = {Fathullah, Yassir and Gales, Mark J. F.},
  booktitle = {Conference on Uncertainty in Artificial Intelligence},
  year      = {2022}
}"""


def text(record):
    """The card as Markdown."""
    parts = [
        f"# {record.name}",
        _what(record),
        "## Use\n\n" + _use(record),
        "## Metrics\n\n" + _metrics(record),
        "## Data\n\n" + _data(record),
        "## Training\n\n" + _training(record),
        "## Limits\n\n" + _limits(record),
        "## Files\n\n" + _files(record),
        f"## Citation\n\n```bibtex\n{CITATION}\n```\n\nThe data: {_source(record).citation}.",
    ]
    return "\n\n".join(parts) + "\n"


def _source(record):
    return info(record.recipe.source_dataset)


def _what(record):
    recipe = record.recipe
    learns = recipe.learns or recipe.sibling(recipe.member).learns
    heads = f" with {recipe.heads} heads (MIMO)" if recipe.heads > 1 else ""
    draws = DRAWS[recipe.draws].format(n=record.num_members)
    if recipe.draws == "point" and record.num_members > 1:
        draws = f"It predicts with {record.num_members} members from one forward pass"
        gaussian = recipe.heads == 1  # The other way to many members is a head for each.
        draws += ", drawn from a Gaussian over log-concentrations." if gaussian else "."
    kind = "Dirichlets" if record.kind == "dirichlet" else "class probabilities"
    return (
        f"{recipe.title}: {recipe.architecture} ({_network(recipe)}){heads} on "
        f"{_trained_on(recipe)}, {WHAT[learns]}. "
        f"{draws} Members predict {kind}; the answer is class probabilities, confidence, and "
        "total, data and knowledge uncertainty in nats. "
        f"{record.parameters:,} trained parameters."
    )


def _network(recipe):
    arguments = ", ".join(f"{name} {value}" for name, value in recipe.arguments.items())
    return f"{recipe.backbone}, {arguments}".replace("_", " ")


def _trained_on(recipe):
    augmentation = recipe.data.augmentation.replace("_", " and ")
    how = "without augmentation" if augmentation == "none" else f"augmented ({augmentation})"
    return f"{names.dataset_title(recipe.source_dataset)} {how}"


def _use(record):
    height, width, channels = _source(record).image_shape
    return (
        "```python\n"
        "from s2d_tf import zoo\n\n"
        f'model = zoo.load("{record.name}")\n'
        f"answer = model.predict_uncertainty(images)   # raw pixels [n, {height}, {width}, "
        f"{channels}], 0 to 255\n"
        f'model.class_names[answer["probs"][0].argmax()], answer["{_most_telling(record)}"][0]\n'
        "```\n\n"
        f"`s2d export {record.name} DIR` makes a SavedModel for TensorFlow Serving; `s2d serve "
        "DIR` answers the same requests without it. Pixels are normalized inside the model: pass "
        "them as they are."
    )


def _most_telling(record):
    return "knowledge" if _decomposes(record) else "total"


def _decomposes(record):
    return record.kind == "dirichlet" or record.num_members > 1


def _metrics(record):
    known = record.recipe.source_dataset
    rows = [("Accuracy %", f"{known}/accuracy", 100, 2), ("NLL", f"{known}/nll", 1, 4)]
    rows += [("ECE %", f"{known}/ece", 100, 2), ("Brier", f"{known}/brier", 1, 4)]
    lines = [f"On the {names.dataset_title(known)} test set, measured with these very weights:", ""]
    spread = bool(record.spread)
    lines += ["| | this model |" + (" mean ± std over seeds |" if spread else "")]
    lines += ["| --- | --- |" + (" --- |" if spread else "")]
    for title, key, factor, digits in rows:
        if key in record.metrics:
            cells = [f"{factor * record.metrics[key]:.{digits}f}"]
            cells += [_spread(record, key, factor, digits)] if spread else []
            lines.append(f"| {title} | {' | '.join(cells)} |")
    detection = _detection(record)
    if detection:
        lines += ["", "Out-of-distribution detection, AUROC %:", "", *detection]
    if spread:
        seeds = next(iter(record.spread.values()))["seeds"]
        lines += ["", f"Seeds: {', '.join(map(str, seeds))}; the weights here are those of seed 0."]
    else:
        lines += ["", f"Seeds: {', '.join(map(str, record.provenance['seeds']))}."]
    return "\n".join(lines)


def _detection(record):
    lines = []
    for name in record.recipe.out_of_distribution:
        keys = [f"{name}/auroc/{uncertainty}" for uncertainty in names.UNCERTAINTIES]
        cells = [
            (f"{100 * record.metrics[key]:.1f}" if key in record.metrics else "")
            + (f" ({_spread(record, key, 100, 1)})" if key in record.spread else "")
            for key in keys
        ]
        if any(cells):
            lines.append(f"| {names.dataset_title(name)} | {' | '.join(cells)} |")
    if not lines:
        return []
    titles = " | ".join(names.LONG_NAMES[u].lower() for u in names.UNCERTAINTIES)
    return [f"| by | {titles} |", "| --- | --- | --- | --- | --- |", *lines]


def _spread(record, key, factor, digits):
    found = record.spread.get(key)
    if found is None:
        return ""
    return f"{factor * found['mean']:.{digits}f} ± {factor * found['stddev']:.{digits}f}"


def _data(record):
    facts, recipe = record.provenance, record.recipe
    lines = [
        f"Trained on the split `{facts['split']}` of {_trained_on(recipe)}. Class names are in "
        "`entry.json`. Fingerprints (sha256 over all images and labels, in any order):",
        "",
    ]
    lines.append(f"- training: `{facts['training_data_fingerprint'] or 'not available'}`")
    for name in (recipe.source_dataset, *recipe.out_of_distribution):
        if f"data/{name}/fingerprint" in record.metrics:
            images = record.metrics[f"data/{name}/images"]
            lines.append(
                f"- {names.dataset_title(name)}, {images:,} test images: "
                f"`{record.metrics[f'data/{name}/fingerprint']}`"
            )
        else:
            lines.append(f"- {names.dataset_title(name)}: not available, not measured")
    return "\n".join(lines)


def _training(record):
    facts, training = record.provenance, record.recipe.training
    versions = [
        f"{key.removeprefix('versions/')} {value}"
        for key, value in record.metrics.items()
        if key.startswith("versions/")
    ]
    lines = ["```sh", *facts["commands"], "```", ""]
    lines.append(
        f"{training.epochs} epochs, batch {record.recipe.data.batch_size}, learning rate "
        f"{training.learning_rate:g} ({training.schedule}), weight decay "
        f"{training.weight_decay:g}; {facts['training_seconds'] / 60:.1f} wall-clock minutes "
        f"on a shared machine.{_before(record.recipe)} The whole recipe is in "
        "`entry.json`."
    )
    if facts.get("changed_numbers"):
        changed = ", ".join(f"`{change}`" for change in facts["changed_numbers"])
        lines.append(f"\nNumbers that differ from the recipe of this name: {changed}.")
    lines.append(f"\nMeasured with {', '.join(versions)}.")
    return "\n".join(lines)


def _before(recipe):
    """What a run needs beside it: the network that it starts from, and its teachers."""
    said = ""
    if recipe.start is not None:
        part = "the finished" if recipe.start.at == 1.0 else f"{recipe.start.at:.0%} of the"
        said += f" It starts from {part} `{recipe.sibling(recipe.start.method).name}`"
        said += ", whose training is not counted."
    if recipe.teachers is not None:
        said += f" Its teachers are `{recipe.sibling(recipe.teachers).name}`."
    return said


def _limits(record):
    known = names.dataset_title(record.recipe.source_dataset)
    size = "x".join(map(str, _source(record).image_shape[:2]))
    limits = [
        f"It knows the {record.recipe.num_classes} classes of {known} and {size} images like "
        "them; everything else gets one of these classes too, hopefully with high uncertainty.",
        "Uncertainties rank images; they are no guarantee. The metrics above show how well they do "
        "on the datasets that were tried.",
    ]
    if not _decomposes(record):
        limits.append(
            "A single categorical prediction does not decompose: data uncertainty is the "
            "total, knowledge uncertainty zero."
        )
    limits.append("Not for decisions about people, nor where an error does harm.")
    return "\n".join(f"- {limit}" for limit in limits)


def _files(record):
    lines = ["| file | precision | seed | sha256 |", "| --- | --- | --- | --- |"]
    for item in record.weights:
        place = f"`{item.file}`" + (f" of `{item.entry}`" if item.entry else "")
        lines.append(f"| {place} | {item.precision} | {item.seed} | `{item.sha256}` |")
    lines.append(f"\n`{record.golden.file}`: the predictions for fixed images "
                 "(`s2d_tf.storage.golden`), which every machine must reproduce.")  # fmt: skip
    return "\n".join(lines)
