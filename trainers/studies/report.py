"""One web page with tables and figures of evaluated runs.

The page holds all that it shows: style and figures are inside it, there is no script, and nothing
is fetched.
"""

from __future__ import annotations

import base64
import datetime
import html
import pathlib
import re
import typing
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

from s2d_tf import __version__, files
from s2d_tf._types import PathLike
from s2d_tf.evaluation import figures, tables
from s2d_tf.evaluation.names import LONG_NAMES, SHORT_NAMES, dataset_title

from . import claims, detectors, result_tables, shift
from .result_tables import tables_of
from .results import Result, Study, by_variant, collect, groups, runs_table

# What is drawn where there is no room for all: first the systems of the paper's figures.
IMPORTANCE = (
    *("individual", "s2d", "ensemble", "s2d_ensemble", "h2d_gauss", "h2d_dir", "end"),
    *("mc", "mimo", "swag", "s2d_mc", "s2d_mimo", "s2d_swag"),
)
MAX_MODELS = 8
MAX_HISTOGRAMS = 4
MAX_COLUMNS = 4
FILE_NAME = "report.html"
# Letters are as large in a narrow figure as in a wide one.
PIXELS_PER_DOT = 108 / 160
MARKS = (
    '<p class="note">In tables, <b>bold</b> is the best of its column, and <b class="overall">bold '
    "and underlined</b> the best whichever column it is in.</p>"
)
_LONG_NAMES = {short: LONG_NAMES[name] for name, short in SHORT_NAMES.items()}
_CLASSES = {claims.HOLDS: "holds", claims.DOES_NOT_HOLD: "fails"}


class Section(typing.NamedTuple):
    """A part of a report: its heading, and tables, HTML and figures `(path, title, caption)`."""

    title: str
    parts: typing.Sequence[Any]

    @property
    def anchor(self) -> str:
        return html.escape(self.title.lower().replace(" ", "-").replace("'", ""))

    @property
    def body(self) -> str:
        parts = "".join(map(_as_html, self.parts))
        return parts.replace("<td>not run", '<td class="blank">not run')


def write_report(
    directories: Iterable[PathLike],
    out: PathLike,
    data_dir: PathLike | None = None,
    log: Callable[[str], Any] = print,
    images: PathLike | None = None,
    **reading: Any,
) -> pathlib.Path:
    """Writes `report.html` and its figures: the paper's tables and claims, and more metrics.

    Args:
        directories: as for `collect`; and files `shift.json` of `s2d study shift`, whose tables and
            curves are added.
        out: folder to write to; the figures are also there, under `figures/`.
        data_dir: TFDS folder.
        log: function that gets lines for a person.
        images: where the images of runs on own data are now; None: where they were.
        **reading: as for `evaluation.score_run`.

    Returns:
        Path of the page.

    Example:

    >>> studies.write_report(["run"], "report", log=lambda line: None).name
    'report.html'
    """
    given = list(directories)
    shifted = [
        path for path in map(pathlib.Path, given) if path.suffix == ".json" and path.is_file()
    ]
    results = collect(each for each in given if pathlib.Path(each) not in shifted)
    out, grouped = pathlib.Path(out), groups(results)
    made = [Section("Tables", tables_of(results))]
    for (architecture, dataset), own in grouped.items():
        of = f": {architecture} on {dataset}" if len(grouped) > 1 else ""
        folder = out / "figures" / f"{architecture}-{dataset}"
        if own[0].recipe.own_data is None:  # The paper claims nothing about other people's images.
            made.append(Section(f"The paper's claims{of}", _claims(own)))
        made += [
            Section(f"Figures{of}", draw_figures(own, folder, data_dir, log, images, **reading)),
            Section(f"More metrics{of}", result_tables.of_group(own)),
            Section(f"Detectors{of}", detectors.detector_tables(own)),
        ]
    for path in shifted:
        for (architecture, dataset), own in groups(Study(path).results()).items():
            parts = shift.show(own, out / "figures")
            made.append(Section(f"Under shift: {architecture} on {dataset}", parts))
    made.append(Section("Made from", _provenance(results)))
    networks = ", ".join(sorted({r.recipe.architecture for r in results}))
    return _write_page(out, f"{len(results)} trained models of {networks}.", made)


def draw_figures(
    results: list[Result],
    folder: PathLike,
    data_dir: PathLike | None = None,
    log: Callable[[str], Any] = print,
    images: PathLike | None = None,
    **reading: Any,
) -> list[tuple[pathlib.Path, str, str]]:
    """Draws everything that a group of runs allows, from the first seed of each method.

    Args:
        results: `Result`s of one network and training set.
        folder: where the PNG files go.
        data_dir: TFDS folder.
        log: function that gets lines for a person.
        images: where the images of runs on own data are now; None: where they were.
        **reading: as for `evaluation.score_run`.

    Returns:
        For each figure its file, a heading, and what it shows.
    """
    from s2d_tf.evaluation.runs_and_entries import score_run  # Here: it brings TensorFlow.

    first_seeds = {variant: part[0] for variant, part in by_variant(results).items()}
    ranked = sorted(first_seeds, key=_importance)[:MAX_MODELS]
    if left_out := [variant for variant in first_seeds if variant not in ranked]:
        log(f"a figure holds {MAX_MODELS} models; left out: {', '.join(left_out)}")
    models = {}
    for result in (result for variant, result in first_seeds.items() if variant in ranked):
        log(f"drawing from {result.directory}")
        models[result.title] = score_run(result.directory, data_dir, images, **reading)
    folder, titles = pathlib.Path(folder), [first_seeds[variant].title for variant in ranked]
    decomposing = [title for title in titles if "knowledge" in models[title].known.scores]
    return [
        *_histograms(models, decomposing[:MAX_HISTOGRAMS] or titles, folder),
        *_reliability(models, folder),
        *_curves(models, folder),
    ]


def _claims(results):
    """A verdict on each of the paper's claims."""
    items = "".join(
        f'<li class="{_CLASSES.get(verdict.verdict, "open")}"><p><span class="verdict">'
        f"{html.escape(verdict.verdict)}</span>{html.escape(verdict.claim.statement)} "
        f"<small>{html.escape(verdict.claim.source)}</small></p>"
        f'<p class="evidence">{html.escape(verdict.evidence)}</p></li>'
        for verdict in claims.check_runs(results)
    )
    return [f"<p>{claims.NOTE}</p>", f'<ul class="claims">{items}</ul>']


def _provenance(results):
    def values(start, *end):
        """`{name: values}` of the keys `start/name/end`, each value once."""
        found: dict[str, dict[str, None]] = {}
        for key, value in (item for result in results for item in result.metrics.items()):
            if key.split("/")[::2] == [start, *end]:
                found.setdefault(key.split("/")[1], {})[str(value)] = None
        return {name: " and ".join(sorted(own)) for name, own in found.items()}

    missing = ", ".join(sorted({name for r in results for name in r.missing_data}))
    versions = ", ".join(f"{name} {own}" for name, own in values("versions").items())
    items = "".join(
        f"<li>{html.escape(name)}: <code>{html.escape(own)}</code></li>"
        for name, own in values("data", "fingerprint").items()
    )
    return [
        runs_table(results),
        "<h3>Data</h3><p>SHA-256 over all examples and labels, whatever their order:</p>"
        f"<ul>{items}</ul>",
        f"<p>Not available: {html.escape(missing)}.</p>" if missing else "",
        f"<h3>Versions</h3><p>{html.escape(versions)}</p>",
    ]


def _as_html(part):
    if isinstance(part, str):
        return part
    if isinstance(part, tables.Table):
        return _table(part)
    path, title, caption = part
    image, caption = path.read_bytes(), html.escape(caption)
    width = round(int.from_bytes(image[16:20], "big") * PIXELS_PER_DOT)  # PNG's first field
    return (
        f'<h3>{html.escape(title)}</h3><figure class="picture"><div class="scroll" tabindex="0">'
        f'<img src="data:image/png;base64,{base64.b64encode(image).decode("ascii")}"'
        f' alt="{caption}" style="max-width:{width}px;min-width:{width * 4 // 5}px"></div>'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _table(table):
    """A table without abbreviations, and always with a caption."""
    # What heads nothing is no head: a reader of the page aloud would name it.
    spans = "".join(
        f'<th colspan="{count}" scope="colgroup" class=group>{html.escape(group)}</th>'
        if group
        else f'<td colspan="{count}"></td>'
        for group, count in table.groups
    )
    names = "".join(
        f'<th scope="col"{" class=stub" if i < table.stub else ""}>'
        f"{html.escape(_LONG_NAMES.get(name, name))}</th>"
        for i, name in enumerate(table.names)
    )
    heads = "".join(f"<tr>{cells}</tr>" for cells in (spans, names) if cells)
    marks = '<b class="best">{}</b>', '<b class="overall">{}</b>', "{} <small>{}</small>"
    tags = ['<th scope="row">{}</th>'] * table.stub + ["<td>{}</td>"] * len(table.names)

    def row(cells):
        return f"<tr>{''.join(map(str.format, tags, cells))}</tr>"

    blocks = tables.mark(table, *marks, escape=html.escape)
    bodies = "".join(f"<tbody>{''.join(map(row, block))}</tbody>" for block in blocks)
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.footnotes)
    caption = f"<caption>{html.escape(table.caption or 'Runs')}</caption>"
    body = f"<table>{caption}<thead>{heads}</thead>{bodies}</table>"
    return f'<figure class=table><div class=scroll tabindex="0">{body}</div>{notes}</figure>\n'


def _write_page(out, subtitle, sections):
    sections = [section for section in sections if section.parts]
    css = resources.files("s2d_tf.trainers.studies").joinpath("report.css").read_text("utf-8")
    links = "".join(f'<a href="#{s.anchor}">{html.escape(s.title)}</a>' for s in sections)
    subtitle = html.escape(f"{subtitle} {datetime.date.today()}.")
    body = "\n".join(f'<h2 id="{s.anchor}">{html.escape(s.title)}</h2>\n{s.body}' for s in sections)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Uncertainty report</title>
<style>
{css}</style>
</head>
<body>
<header><div><h1>Uncertainty report</h1>
<p>{subtitle}</p></div></header>
<nav aria-label="Sections"><div>{links}</div></nav>
<main>
{MARKS}
{body}
<footer>Made by s2d_tf {html.escape(__version__)}.</footer>
</main>
</body>
</html>
"""
    path = pathlib.Path(out) / FILE_NAME
    files.write_text(path, page)
    return path


def _histograms(models, shown, folder):
    sets = _ood_sets(models)
    # The paper shows SVHN; other data has its first set in that place.
    for far in ["svhn_cropped"] if "svhn_cropped" in sets else sets[:1]:
        known = _known(models)
        drawn = {t: m for t, m in models.items() if t in shown and far in m.unknown}
        scores = {
            known: {title: m.known.scores for title, m in drawn.items()},
            dataset_title(far): {title: m.unknown[far].scores for title, m in drawn.items()},
        }
        yield (
            figures.uncertainty_histograms(scores, folder / "histograms.png"),
            "Uncertainty of known and unknown images",
            f"Total, data and knowledge uncertainty on {known} (above) and {dataset_title(far)} "
            "(below). A column has one scale; its largest thousandth is left out.",
        )


def _reliability(models, folder):
    parts = [(title, (m.known.probs, m.known.labels)) for title, m in models.items()]
    for index in range(0, len(parts), MAX_COLUMNS):
        yield (
            figures.reliability_diagram(
                dict(parts[index : index + MAX_COLUMNS]),
                folder / f"reliability_{index // MAX_COLUMNS}.png",
            ),
            "Reliability" if index == 0 else "Reliability, continued",
            f"How often a confidence is right on {_known(models)}, and how common that confidence "
            "is.",
        )


def _curves(models, folder):
    for name in _ood_sets(models):
        pairs = {
            title: (m.known.scores, m.unknown[name].scores)
            for title, m in models.items()
            if name in m.unknown
        }
        title = dataset_title(name)
        yield (
            figures.roc_curves(pairs, folder / f"roc_{name}.png"),
            f"{title}: ROC curves",
            f"Finding the images of {title} among the known ones, by each uncertainty.",
        )
    shown = {title: (m.known.scores, m.known.errors) for title, m in models.items()}
    yield (
        figures.risk_coverage_curves(shown, folder / "risk_coverage.png"),
        "Risk and coverage",
        f"Error rate on {_known(models)} among the images that are answered, the most uncertain "
        "rejected first.",
    )


def _importance(variant):
    """Place in the choice of what is drawn; sizes other than the usual 5 come last."""
    method = re.sub(r"_\d+$", "", variant)
    return variant != method, (*IMPORTANCE, method).index(method), variant


def _known(models):
    return dataset_title(next(iter(models.values())).dataset)


def _ood_sets(models):
    return list(dict.fromkeys(name for m in models.values() for name in m.unknown))
