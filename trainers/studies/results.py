"""What is known of models: metrics of finished runs, and the tidy rows of a study.

A study asks a question of many models. It is one JSON file: `rows`, each with the columns model,
seed, dataset, metric, score, value, low and high, and `models`, what is known of each model
(recipe, seed, split, weights, versions). The page, its tables and figures are made from that file
and nothing else. Reading needs no TensorFlow.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from s2d_tf import files, zoo
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation import names, tables
from s2d_tf.zoo import entries, sources
from s2d_tf.zoo.recipes import Recipe
from s2d_tf.zoo.runs import METRICS

from . import views

FACTS = ("run", "data", "versions", "time", "shift")
"""What keys begin with that are not metrics."""
COLUMNS = ("model", "seed", "dataset", "metric", "score", "value", "low", "high")


@dataclasses.dataclass(frozen=True)
class Result(zoo.Run):
    """One evaluated run, or a view of it: a `zoo.Run` with what was measured.

    Attributes:
        metrics: the flat dict of `evaluate_run`.
        ends: `{key: (low, high)}` of the metrics whose 95% intervals are known.

    Example:

    >>> (result,) = studies.collect(["run"])
    >>> result.variant, "digits/nll" in result.metrics
    ('s2d', True)
    """

    metrics: dict = dataclasses.field(default_factory=dict)
    ends: dict = dataclasses.field(default_factory=dict)

    @property
    def variant(self) -> str:
        """The method, with the number of members where it is not the usual 5: `ensemble_10`."""
        members = None if self.recipe.draws == "point" else self.recipe.num_members
        return views.variant(self.recipe.method, members)

    @property
    def title(self) -> str:
        """The method's name for people."""
        size = self.variant.removeprefix(self.recipe.method).lstrip("_")
        return f"{self.recipe.title} of {size}" if size else self.recipe.title

    @property
    def missing_data(self) -> list[str]:
        """Datasets that were not on the machine when this run was evaluated."""
        parts = (key.split("/") for key in self.metrics)
        return [part[1] for part in parts if part[0] == "data" and part[-1] == "missing"]


def collect(directories: Iterable[PathLike]) -> list[Result]:
    """The results of runs, of their members and of the views (`views`) that were evaluated.

    The same weights are never counted twice, whether a directory is named twice or a single run is
    also a member of an ensemble. Plain files are passed over: `runs/*` may hold logs too.

    Args:
        directories: run directories: each the `--workdir` of `s2d train`, after `s2d evaluate`; or
            names or folders of zoo entries.

    Returns:
        A `Result` for each network, ensemble and view.

    Raises:
        FileNotFoundError: a run was not evaluated yet.

    Example:

    >>> [result.title for result in studies.collect(["run"])]
    ['S2D Individual']
    """
    found: dict[Any, Result] = {}
    given = list(directories)
    for where in [each for each in given if not pathlib.Path(each).is_file()] or given:
        run = zoo.Run.open(where) if zoo.is_run(where) else sources.find(where)
        if not isinstance(run, zoo.Run):
            record = entries.read(run.read(entries.ENTRY, entries.MAX_TEXT_BYTES), str(run))
            facts = record.recipe, record.weights[0].seed, record.provenance.get("split", "train")
            held = Result(pathlib.Path(str(run)), *facts, metrics=record.metrics)
            found.setdefault(record.metrics.get("run/weights", record.name), held)
            continue
        if not (run.directory / METRICS).is_file():
            raise FileNotFoundError(
                f"{run.directory}: expected an evaluated run, received one without {METRICS}. "
                f"Run `s2d evaluate {run.directory}` first."
            )
        for part in views.nested(run):
            if (part.directory / METRICS).is_file():
                metrics = files.read_json(part.directory / METRICS)
                identity = metrics.get("run/weights", part.directory.resolve())
                found.setdefault(identity, Result(**vars(part), metrics=metrics))
    return list(found.values())


def public(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics without what concerns only the machine that measured them: its folders."""
    return {
        key: "not available" if key.endswith("/missing") else value
        for key, value in metrics.items()
        if not (key.startswith("data/") and key.endswith("/folder"))
    }


def by_variant(results: list[Result]) -> dict[str, list[Result]]:
    """`{method or method_size: [Result]}`, seeds in order, methods in the order of all tables."""

    def place(result):
        method = result.recipe.method  # One that is not known comes last.
        return (*names.METHODS, method).index(method), result.variant, result.seed

    grouped: dict[str, list[Result]] = {}
    for result in sorted(results, key=place):
        grouped.setdefault(result.variant, []).append(result)
    return grouped


def by_title(results: list[Result]) -> dict[str, list[dict]]:
    """`{title: [metrics of each seed]}` in the order of all tables."""
    return {part[0].title: [r.metrics for r in part] for part in by_variant(results).values()}


def ood_names(results: list[Result]) -> list[str]:
    """The OOD datasets that were evaluated: first the recipe's, in its order, then others."""
    measured = [key.split("/")[0] for r in results for key in r.metrics if "/auroc/" in key]
    first = [name for name in results[0].recipe.out_of_distribution if name in measured]
    return list(dict.fromkeys([*first, *measured]))


def groups(results: list[Result]) -> dict[tuple[str, str], list[Result]]:
    """Results that may be compared: `{(architecture, training dataset): [Result]}`.

    Folders of other images that have the same name are told apart by their fingerprints.
    """
    datasets = {(result.recipe.dataset, result.recipe.own_data) for result in results}
    kinds = collections.Counter(name for name, _ in datasets)
    grouped: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        recipe, name = result.recipe, result.recipe.dataset
        if kinds[name] > 1 and recipe.own_data:
            name = f"{name} ({recipe.own_data.fingerprint[:8]})"
        grouped.setdefault((recipe.architecture, name), []).append(result)
    return grouped


def runs_table(results: list[Result]) -> tables.Table:
    """Which runs the report is made from."""
    grouped: dict[tuple, list] = {}
    for result in results:
        recipe = result.recipe
        key = recipe.architecture, recipe.dataset, result.title, result.split
        grouped.setdefault(key, []).append(result.seed)
    shown = {key: [*map(str, sorted(s)[:8]), "..."][: len(s)] for key, s in grouped.items()}
    rows = [[*key, ", ".join(seeds)] for key, seeds in shown.items()]
    return tables.make("", ["Network", "Data", "Method", "Trained on", "Seeds"], [rows], stub=5)


@dataclasses.dataclass(frozen=True)
class Question:
    """What a study asks of each model.

    Attributes:
        name: of the command's argument and of the files.
        title: heading of the page.
        ask: function from a `zoo.TrainedModel` and options to its flat metrics, and to what
            `compare` takes.
        show: function from `Result`s of one network and dataset and the folder of the page to its
            parts: tables, Markdown, and figures as `(path, title, caption)`.
        compare: function from two models' second answers to `{key: {"estimate", "low", "high"}}`,
            or None where models are not compared with the first.
        intervals: function from a model's second answer and a number of resamples to such a dict
            of its metrics, or None.
    """

    name: str
    title: str
    ask: Callable[..., tuple[dict, Any]]
    show: Callable[[list[Result], pathlib.Path], list]
    compare: Callable[..., dict] | None = None
    intervals: Callable[..., dict] | None = None


class Study:
    """The rows and models of a study's file.

    Args:
        path: JSON file; an empty study where there is none.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = pathlib.Path(path)
        held = files.read_json(self.path) if self.path.is_file() else {}
        UserError.unless(
            not held or {"columns", "models", "rows"} <= held.keys(),
            f"{path}: expected the file of a study, received the keys {sorted(held)[:5]}. Pass "
            "a file that `s2d study` wrote.",
        )
        self.models: dict[str, dict] = held.get("models", {})
        self.rows: list[list] = held.get("rows", [])

    def add(
        self, model: str, metrics: dict[str, Any], facts: dict[str, Any], intervals: dict
    ) -> None:
        """Adds the flat dict of a model, and what is known of it, in place of one of that name."""
        others = {k: v for k, v in metrics.items() if k.split("/")[0] in FACTS}
        self.models[model] = {**facts, "facts": others}
        ends = {k: [each["low"], each["high"]] for k, each in intervals.items()}
        values = {k: [v, *ends.get(k, (None, None))] for k, v in metrics.items() if k not in others}
        self._replace(model, facts["seed"], values)

    def add_difference(self, model: str, intervals: dict[str, dict]) -> None:
        """Adds the differences of two models, such as `"b minus a"`, with their intervals."""
        parts = ("estimate", "low", "high")
        self._replace(model, None, {k: [v[p] for p in parts] for k, v in intervals.items()})

    def _replace(self, model, seed, values):
        self.rows = [row for row in self.rows if row[0] != model]
        for key, numbers in values.items():
            dataset, metric, *score = key.split("/")
            self.rows.append([model, seed, dataset, metric, "/".join(score), *numbers])

    def write(self) -> None:
        """Writes the file, one row a line."""
        rows = ",\n".join(json.dumps(row) for row in self.rows)
        models = json.dumps(self.models, indent=1, sort_keys=True)
        head = f'{{"columns": {json.dumps(COLUMNS)},\n"models": {models},\n"rows": [\n'
        files.write_text(self.path, f"{head}{rows}\n]}}\n")

    def results(self) -> list[Result]:
        """A `Result` for each model, with its metrics as a flat dict."""
        metrics: dict[str, dict] = {name: dict(each["facts"]) for name, each in self.models.items()}
        ends: dict[str, dict] = {name: {} for name in self.models}
        for model, _, *parts, value, low, high in self.rows:
            if model in metrics:
                key = "/".join(parts).rstrip("/")
                metrics[model][key] = value
                ends[model] |= {} if low is None else {key: (low, high)}
        return [
            Result(
                self.path.parent / model,
                Recipe.from_dict(each["recipe"]),
                each["seed"],
                each["split"],
                metrics=metrics[model],
                ends=ends[model],
            )
            for model, each in self.models.items()
        ]

    def differences(self) -> dict[str, dict[str, dict]]:
        """`{"b minus a": {key: {"estimate", "low", "high"}}}`."""
        found: dict[str, dict] = {}
        for model, _, *parts, value, low, high in self.rows:
            if model not in self.models:
                interval = {"estimate": value, "low": low, "high": high}
                found.setdefault(model, {})["/".join(parts).rstrip("/")] = interval
        return found


def run(
    question: Question,
    models: Iterable[str],
    out: PathLike,
    num_resamples: int = 1_000,
    log: Callable[[str], Any] = print,
    **options: Any,
) -> list[pathlib.Path]:
    """Asks a question of models, and writes the study and its page.

    What the study holds already stays, unless a model of the same name is among `models`; without
    models only the page is written.

    Args:
        question: what to ask, with its `options`.
        models: run directories; names, folders or addresses of zoo entries.
        out: folder for `NAME.json`, `NAME.md` and plots.
        num_resamples: bootstrap resamples behind the intervals.
        log: function that gets lines for a person.

    Returns:
        Paths of the study and the page.
    """
    study, first = Study(pathlib.Path(out) / f"{question.name}.json"), None
    for where in models:
        opened = zoo.open_model(where)
        label = label_of(opened)
        log(f"evaluating {label}")
        metrics, answers = question.ask(opened, log=log, **options)
        about = {"recipe": opened.recipe.to_dict(), "seed": opened.seeds[0], "split": opened.split}
        ends = question.intervals(answers, num_resamples) if question.intervals else {}
        study.add(label, public(metrics), about, ends)
        first = first or (label, answers)
        if question.compare is not None and label != first[0]:
            log(f"resampling {label} minus {first[0]} {num_resamples:,} times")
            found = question.compare(answers, first[1], num_resamples)
            study.add_difference(f"{label} minus {first[0]}", found)
        study.write()  # After each model: hours may have gone into it.
    UserError.unless(
        study.models,
        f"MODEL: expected models, since {study.path} holds none, received none. Name runs or "
        "zoo entries.",
    )
    page = study.path.with_suffix(".md")
    files.write_text(page, text(question, study, num_resamples))
    return [study.path, page]


def text(question: Question, study: Study, num_resamples: int = 1_000) -> str:
    """The page of a study as Markdown; figures are drawn into its folder."""
    folder = study.path.parent
    parts: list[Any] = [f"# {question.title}\n"]
    for (architecture, dataset), own in groups(study.results()).items():
        parts += [f"## {architecture} on {dataset}\n", *question.show(own, folder)]
    for i, (caption, found) in enumerate(study.differences().items()):
        parts += ["## Differences\n"] if i == 0 else []
        parts.append(tables.difference_table(found, caption, num_resamples))
    return markdown(parts, folder)


def markdown(parts: Iterable[Any], folder: pathlib.Path) -> str:
    """Tables, texts and figures `(path, title, caption)` as Markdown of a page in `folder`."""

    def write(part):
        if isinstance(part, tables.Table):
            return tables.render(part, "markdown")
        if isinstance(part, str):
            return part
        path, title, caption = part
        return f"![{title}]({path.relative_to(folder).as_posix()})\n\n{caption}\n"

    return "\n".join(map(write, parts))


def label_of(opened: zoo.TrainedModel) -> str:
    """What a study calls a model: the name of its entry, or of its run's directory."""
    if opened.run is None:
        return opened.name
    directory = opened.run.directory.resolve()
    if zoo.is_run(directory.parent):  # A member of an ensemble, or a view.
        return f"{directory.parent.name}.{directory.name}"
    return directory.name
