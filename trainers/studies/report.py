"""One web page with tables and figures of evaluated runs.

The page holds all that it shows: style and figures are inside it, there is no script, and nothing
is fetched.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import html
import pathlib
import typing
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

from s2d_tf import __version__, files
from s2d_tf._types import PathLike
from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import LONG_NAMES, SHORT_NAMES

from . import claims, detectors, result_tables, shift
from .paper_tables import tables_of
from .results import collect, groups
from .study import Study

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
) -> pathlib.Path:
    """Writes `report.html` and its figures: the paper's tables and claims, and more metrics.

    Args:
        directories: run directories: each the `--workdir` of `s2d train`, after `s2d evaluate`;
            and files `shift.json` of `s2d study shift`, whose tables and curves are added.
        out: folder to write to; the figures are also there, under `figures/`.
        data_dir: TFDS folder.
        log: function that gets lines for a person.
        images: where the images of runs on own data are now; None: where they were.

    Returns:
        Path of the page.

    Example:

    >>> studies.write_report(["run"], "report", log=lambda line: None).name
    'report.html'
    """
    paths = [pathlib.Path(each) for each in directories]
    shifted = [path for path in paths if path.suffix == ".json" and path.is_file()]
    results = collect(path for path in paths if path not in shifted)
    # Here and not above: it brings TensorFlow, and mistakes in the arguments should come first.
    from . import report_figures

    out, grouped = pathlib.Path(out), groups(results)
    made = [Section("Tables", tables_of(results))]
    for (architecture, dataset), own in grouped.items():
        of = f": {architecture} on {dataset}" if len(grouped) > 1 else ""
        folder = out / "figures" / f"{architecture}-{dataset}"
        if own[0].recipe.own_data is None:  # The paper claims nothing about other people's images.
            made.append(Section(f"The paper's claims{of}", _claims(own)))
        made += [
            Section(f"Figures{of}", report_figures.draw(own, folder, data_dir, log, images)),
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
    versions: dict[str, set] = {}
    prints: dict[str, set] = {}
    for result in results:
        for key, value in result.metrics.items():
            kind, name, *rest = key.split("/")
            if kind == "versions":
                versions.setdefault(name, set()).add(str(value))
            if kind == "data" and rest == ["fingerprint"]:
                prints.setdefault(name, set()).add(str(value))
    missing = ", ".join(sorted({name for r in results for name in r.missing_data}))
    shown = ", ".join(f"{name} {' and '.join(sorted(own))}" for name, own in versions.items())
    items = "".join(
        f"<li>{html.escape(name)}: <code>{html.escape(' and '.join(sorted(own)))}</code></li>"
        for name, own in prints.items()
    )
    return [
        result_tables.runs_table(results),
        "<h3>Data</h3><p>SHA-256 over all examples and labels, whatever their order:</p>"
        f"<ul>{items}</ul>",
        f"<p>Not available: {html.escape(missing)}.</p>" if missing else "",
        f"<h3>Versions</h3><p>{html.escape(shown)}</p>",
    ]


def _as_html(part):
    if isinstance(part, str):
        return part
    if isinstance(part, tables.Table):  # Without abbreviations, and always with a caption.
        columns = tuple((group, _LONG_NAMES.get(name, name)) for group, name in part.columns)
        full = dataclasses.replace(part, columns=columns, caption=part.caption or "Runs")
        return tables.render(full, "html")
    path, title, caption = part
    image, caption = path.read_bytes(), html.escape(caption)
    width = round(int.from_bytes(image[16:20], "big") * PIXELS_PER_DOT)  # PNG's first field
    return (
        f'<h3>{html.escape(title)}</h3><figure class="picture"><div class="scroll" tabindex="0">'
        f'<img src="data:image/png;base64,{base64.b64encode(image).decode("ascii")}"'
        f' alt="{caption}" style="max-width:{width}px;min-width:{width * 4 // 5}px"></div>'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


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
