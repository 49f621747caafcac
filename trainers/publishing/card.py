"""The model card of an entry: a README.md made from its record, so that it cannot disagree."""

from __future__ import annotations

from s2d_tf.data.registry import info
from s2d_tf.evaluation import names, tables
from s2d_tf.uncertainty import decomposes
from s2d_tf.zoo import entries

WHAT = {
    "labels": "trained on labels with cross-entropy",
    "self": "trained with self-distribution distillation (S2D): it learns a Dirichlet over class "
    "probabilities from its own noisy predictions",
    "teachers": "a student trained on the predictions of an ensemble",
}
DRAWS = {
    "point": "It predicts {one} in one forward pass.",
    "gaussian": "It averages {n} {kind} predictions, drawn from a Gaussian over {outputs} in one "
    "forward pass.",
    "heads": "It averages {n} {kind} predictions, one per head, in one forward pass.",
    "dropout": "It averages {n} {kind} predictions, with fixed Monte Carlo dropout masks.",
    "swag": "It averages {n} {kind} predictions, with weights drawn from a diagonal Gaussian "
    "(SWAG-Diag).",
    "ensemble": "It averages {n} {kind} predictions, of networks trained with different seeds.",
}
# Title, key, factor and digits.
METRICS = (
    ("Accuracy %", "accuracy", 100, 2),
    ("NLL", "nll", 1, 4),
    ("ECE %", "ece", 100, 2),
    ("Brier", "brier", 1, 4),
)
LICENSE = "Apache-2.0"  # of the weights
CITATION = """\
@inproceedings{fathullah2022s2d,
  title     = {Self-Distribution Distillation: Efficient Uncertainty Estimation},
  author    = {Fathullah, Yassir and Gales, Mark J. F.},
  booktitle = {Conference on Uncertainty in Artificial Intelligence},
  year      = {2022}
}"""


def text(record: entries.Record) -> str:
    """Returns the card as Markdown."""
    recipe, facts = record.recipe, record.provenance
    source, known = info(recipe.source_dataset), names.dataset_title(recipe.source_dataset)
    splits = decomposes(record.kind, record.num_members)
    shape = ", ".join(map(str, recipe.image_shape))
    terms = source.terms or f"Check the terms of {known} before use."
    how = recipe.data.augmentation.replace("mirror_shift", "mirror and shift").replace("_", " ")
    how = "without augmentation" if how == "none" else f"with augmentation ({how})"
    most_telling = "knowledge" if splits else "total"
    certain = "" if splits else (
        "- A single categorical prediction does not decompose: data uncertainty is the total, and "
        "knowledge uncertainty is zero.\n"
    )  # fmt: skip
    return f"""\
# {record.name}

{_what(record)}

## Use

```python
from s2d_tf import zoo

model = zoo.load("{record.name}")
answer = model.predict_uncertainty(images)   # raw pixels [n, {shape}], 0 to 255
model.class_names[answer["label"][0]], answer["{most_telling}"][0]
```

`s2d export {record.name} DIR` writes a SavedModel for TensorFlow Serving or `s2d serve DIR`. \
Pass raw pixels: the model normalizes them.

{_steps(record)}## Metrics

These weights on the {known} test set:

{_metrics(record)}
{_strengths(record)}
## Data

Trained on the `{facts["split"]}` split of {known} {how}. Class names are in `entry.json`. \
Fingerprints (sha256 of all images and labels, in any order):

- training: `{facts["training_data_fingerprint"] or "not available"}`
{_fingerprints(record)}

## Training

{_training(record)}

## Limits

- It predicts only the {recipe.num_classes} classes of {known}, for {_size(recipe)} like the \
training data. Any other input also gets one of these classes, ideally with high uncertainty.
- Uncertainty ranks images but guarantees nothing. The metrics above show how well it \
works on the listed datasets.
{certain}- Do not use it for decisions about people, or where errors cause harm.

## Files

{_table([("file", "precision", "seed", "sha256"), *map(_file, record.weights)])}

`{record.golden.file}` has the predictions for fixed images, \
to check that an installation reproduces them.

## License

The weights are licensed under {LICENSE}. {terms}

## Citation

```bibtex
{CITATION}
```

Data: {source.citation}.
"""


def _what(record):
    recipe, draws = record.recipe, record.recipe.draws
    if draws == "point" and record.num_members > 1:
        draws = "heads" if recipe.heads > 1 else "gaussian"
    learns = recipe.learns or recipe.sibling(recipe.member).learns
    heads = f" with {recipe.heads} heads (MIMO)" if recipe.heads > 1 else ""
    one, kind, outputs = (
        ("a Dirichlet", "Dirichlet", "log-concentrations")
        if record.kind == "dirichlet"
        else ("class probabilities", "softmax", "logits")
    )
    arguments = ", ".join(f"{name} {value}" for name, value in recipe.arguments.items())
    network = f"{recipe.backbone}, {arguments}".replace("_", " ")
    how = DRAWS[draws].format(n=record.num_members, one=one, kind=kind, outputs=outputs)
    known = names.dataset_title(recipe.source_dataset)
    return (
        f"Classifies {_size(recipe)} into the {recipe.num_classes} classes of "
        f"{known}. Returns class probabilities, confidence, and total, data and knowledge "
        "uncertainty in nats.\n\n"
        f"{recipe.title}: {recipe.architecture} ({network}){heads}, {WHAT[learns]}. {how} "
        f"{record.parameters:,} trained parameters."
    )


def _steps(record):
    """Lists the model's post-hoc steps, if any."""
    if not record.steps:
        return ""
    rows = [(f"`{s.step}`", s.fitted_on, f"`{s.file}`", f"`{s.sha256}`") for s in record.steps]
    table = _table([("step", "fitted on", "file", "sha256"), *rows])
    return f"## Steps\n\nApplied to every prediction, in this order:\n\n{table}\n\n"


def _metrics(record):
    """A table of the test set, one of out-of-distribution detection, and the seeds."""
    spread = bool(record.spread)
    rows = [("", "this model", "mean ± std over seeds")]
    for title, name, factor, digits in METRICS:
        own, over = _value(record, f"{record.recipe.source_dataset}/{name}", factor, digits)
        rows += [(title, own, over)] if own else []
    detection = [("dataset", *(names.LONG_NAMES[u].lower() for u in names.UNCERTAINTIES))]
    # The recipe may be older than some of the sets.
    measured = (key.split("/")[0] for key in record.metrics if key.endswith("/auroc/total"))
    for name in dict.fromkeys((*record.recipe.out_of_distribution, *measured)):
        values = [_value(record, f"{name}/auroc/{u}", 100, 1) for u in names.UNCERTAINTIES]
        cells = [f"{own} ({over})" if over else own for own, over in values]
        detection += [(names.dataset_title(name), *cells)] if any(cells) else []
    parts = [_table(rows if spread else [row[:2] for row in rows])]
    if len(detection) > 1:
        parts += ["Out-of-distribution detection, AUROC %:", _table(detection)]
        if record.recipe.detection_score:
            score = names.LONG_NAMES[record.recipe.detection_score].lower()
            parts += [f"The recipe named its score, {score}, before these weights were tested."]
    seeds = next(iter(record.spread.values()))["seeds"] if spread else record.provenance["seeds"]
    parts += [
        f"Seeds: {', '.join(map(str, seeds))}"
        f"{'; the weights here are those of seed 0' if spread else ''}."
    ]
    evaluations = record.metrics.get("run/test_readings")
    if evaluations is not None:
        times = "once" if evaluations == 1 else f"{evaluations} times"
        parts[-1] += f" These weights were evaluated on the test images {times}."
    return "\n\n".join(parts)


def _size(recipe):
    height, width, _ = recipe.image_shape
    return f"{height}x{width} images"


def _strengths(record):
    """Strengths and weaknesses, if they were measured when the entry was published."""
    facts = record.provenance
    if "picture" not in facts:
        return ""
    listed = (
        ("Most accurate classes", "best_classes"),
        ("Least accurate classes", "worst_classes"),
        ("Most frequent confusions", "confusions"),
        ("Detection of wrong predictions, AUROC %", "wrong_answers"),
    )
    lines = [f"- {title}: {', '.join(facts[key])}." for title, key in listed if facts[key]]
    return f"""
## Strengths and weaknesses

{chr(10).join(lines)}

![Histograms of each uncertainty on known and unknown images]({facts["picture"]})

Each panel shows one uncertainty on correctly and wrongly classified test images and on \
images of other datasets. Less overlap is better.
"""


def _value(record, key, factor, digits):
    """A metric of these weights, and its mean and deviation over seeds; empty if not measured."""
    spread = record.spread.get(key, {})
    own, *over = [
        f"{factor * values[name]:.{digits}f}" if name in values else ""
        for values, name in ((record.metrics, key), (spread, "mean"), (spread, "stddev"))
    ]
    return own, " ± ".join(over) if spread else ""


def _table(rows):
    made = tables.make("", rows[0], [rows[1:]], stub=len(rows[0]))
    return tables.render(made, "markdown").strip()


def _fingerprints(record):
    lines = []
    for name in (record.recipe.source_dataset, *record.recipe.out_of_distribution):
        images, digest = (record.metrics.get(f"data/{name}/{f}") for f in ("images", "fingerprint"))
        unread = ": not available, not evaluated"
        read = f", {images:,} test images: `{digest}`" if digest else unread
        lines.append(f"- {names.dataset_title(name)}{read}")
    return "\n".join(lines)


def _training(record):
    recipe, training, facts = record.recipe, record.recipe.training, record.provenance
    used = [k for k in record.metrics if k.startswith("versions/")]
    versions = ", ".join(f"{k.removeprefix('versions/')} {record.metrics[k]}" for k in used)
    before = ""
    if recipe.start is not None:
        part = "the finished" if recipe.start.at == 1.0 else f"{recipe.start.at:.0%} of the"
        name = recipe.sibling(recipe.start.method).name
        before += f" It starts from {part} `{name}`, whose training time is not included."
    if recipe.teachers is not None:
        before += f" Its teachers are `{recipe.sibling(recipe.teachers).name}`."
    listed = ", ".join(f"`{change}`" for change in facts.get("changed_numbers", ()))
    changed = f"\nValues that differ from this recipe: {listed}.\n" if listed else ""
    commands = "\n".join(facts["commands"])
    return f"""\
```sh
{commands}
```

{training.epochs} epochs, batch {recipe.data.batch_size}, learning rate {training.learning_rate:g} \
({training.schedule}), weight decay {training.weight_decay:g}; \
{facts["training_seconds"] / 60:.1f} wall-clock minutes on a shared machine.{before} \
The full recipe is in `entry.json`.
{changed}
Evaluated with {versions}."""


def _file(item):
    place = f" of `{item.entry}`" if item.entry else ""
    return f"`{item.file}`{place}", item.precision, item.seed, f"`{item.sha256}`"
