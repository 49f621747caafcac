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
from typing import TYPE_CHECKING, Any

from s2d_tf import __version__, files
from s2d_tf._types import PathLike
from s2d_tf.evaluation import drawing, tables
from s2d_tf.evaluation.names import LONG_NAMES, SHORT_NAMES

from . import detector_tables, result_tables, shift_report
from .results import collect, groups

if TYPE_CHECKING:
    from .results import Result

FILE_NAME = "report.html"
PIXELS_PER_INCH = 108
MARKS = (
    '<p class="note">In tables, <b>bold</b> is the best of its column, and <b class="overall">bold '
    "and underlined</b> the best whichever column it is in.</p>"
)
_LONG_NAMES = {short: LONG_NAMES[name] for name, short in SHORT_NAMES.items()}


class Section(typing.NamedTuple):
    """A part of a report.

    Attributes:
        title: its heading.
        parts: its `tables.Table`s and pieces of HTML in order.

    Example:

    >>> evaluation.Section("Notes", ["<p>Trained on one CPU.</p>"]).anchor
    'notes'
    """

    title: str
    parts: typing.Sequence[tables.Table | str]

    @property
    def anchor(self) -> str:
        return html.escape(self.title.lower().replace(" ", "-").replace("'", ""))

    @property
    def body(self) -> str:
        parts = [p if isinstance(p, str) else _render(p) for p in self.parts]
        return "".join(parts).replace("<td>not run", '<td class="blank">not run')


def _render(table):
    """A table of a page that explains itself: no abbreviation, and always a caption."""
    columns = tuple((group, _LONG_NAMES.get(name, name)) for group, name in table.columns)
    caption = table.caption or "Runs"
    return tables.render(dataclasses.replace(table, columns=columns, caption=caption), "html")


def overviews(results: list[Result]) -> list[Section]:
    """The first sections of a report of any models: an overview of each group of runs."""
    return [Section("Tables", result_tables.overview(results))]


def write_report(
    directories: Iterable[PathLike],
    out: PathLike,
    data_dir: PathLike | None = None,
    log: Callable[[str], Any] = print,
    sections: Callable[[list[Result]], list[Section]] = overviews,
    images: PathLike | None = None,
) -> pathlib.Path:
    """Writes `report.html` and its figures.

    Args:
        directories: run directories: each the `--workdir` of `s2d train`, after `s2d evaluate`.
        out: folder to write to; the figures are also there, under `figures/`.
        data_dir: TFDS folder.
        log: function that gets lines for a person.
        sections: function from the `results.Result`s to the `Section`s at the top of the page.
        images: where the images of runs on own data are now; None: where they were.

    Returns:
        Path of the page.

    Example:

    >>> evaluation.write_report(["run"], "report", log=lambda line: None).name
    'report.html'
    """
    results = collect(directories)
    # Here and not above: it brings TensorFlow, and mistakes in the arguments should come first.
    from . import report_pictures

    out, grouped = pathlib.Path(out), groups(results)
    made = list(sections(results))
    for (architecture, dataset), own in grouped.items():
        folder = out / "figures" / f"{architecture}-{dataset}"
        drawn = report_pictures.draw(own, folder, data_dir, log, images)
        figures = [figure(*picture) for picture in drawn]
        of = f": {architecture} on {dataset}" if len(grouped) > 1 else ""
        made += [
            Section(f"Figures{of}", figures),
            Section(f"More metrics{of}", result_tables.of_group(own)),
        ]
        detectors = detector_tables.of_group(own)
        made += [Section(f"Detectors{of}", detectors)] if detectors else []
        curves, shifted = shift_report.of_group(own, folder)
        if shifted:
            made.append(Section(f"Under shift{of}", [*(figure(*c) for c in curves), *shifted]))
    made.append(Section("Made from", _provenance(results)))
    networks = ", ".join(sorted({r.recipe.architecture for r in results}))
    return write_page(out, f"{len(results)} trained models of {networks}.", made)


def write_page(out: PathLike, subtitle: str, sections: Iterable[Section]) -> pathlib.Path:
    """Writes `report.html` with these `Section`s into the folder `out`; returns its path."""
    out = pathlib.Path(out)
    files.write_text(out / FILE_NAME, _page(subtitle, sections))
    return out / FILE_NAME


def figure(path: pathlib.Path, title: str, caption: str) -> str:
    """A PNG file with its title and caption as HTML."""
    image, caption = path.read_bytes(), html.escape(caption)
    # Letters are as large in a narrow figure as in a wide one; the width is PNG's first field.
    width = round(int.from_bytes(image[16:20], "big") * PIXELS_PER_INCH / drawing.DPI)
    return (
        f'<h3>{html.escape(title)}</h3><figure class="picture"><div class="scroll" tabindex="0">'
        f'<img src="data:image/png;base64,{base64.b64encode(image).decode("ascii")}"'
        f' alt="{caption}" style="max-width:{width}px;min-width:{width * 4 // 5}px"></div>'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _facts(results, kind, last=None):
    """`{name: values in any run}` of the keys `kind/name` or `kind/name/last`."""
    found: dict[str, Any] = {}
    for result in results:
        for key, value in result.metrics.items():
            first, name, *rest = key.split("/")
            if first == kind and last in (None, *rest):
                found.setdefault(name, set()).add(str(value))
    return {name: html.escape(" and ".join(sorted(values))) for name, values in found.items()}


def _provenance(results):
    prints = _facts(results, "data", "fingerprint")
    items = "".join(f"<li>{html.escape(n)}: <code>{p}</code></li>" for n, p in prints.items())
    missing = ", ".join(sorted({name for r in results for name in r.missing_data}))
    versions = ", ".join(" ".join(pair) for pair in _facts(results, "versions").items())
    return [
        result_tables.runs_table(results),
        "<h3>Data</h3><p>SHA-256 over all test images and labels, whatever their order:</p>"
        f"<ul>{items}</ul>",
        f"<p>Not available: {html.escape(missing)}.</p>" if missing else "",
        f"<h3>Versions</h3><p>{versions}</p>",
    ]


def _page(subtitle, sections):
    css = resources.files("s2d_tf.evaluation").joinpath("report.css").read_text("utf-8")
    links = "".join(f'<a href="#{s.anchor}">{html.escape(s.title)}</a>' for s in sections)
    subtitle = html.escape(f"{subtitle} {datetime.date.today()}.")
    body = "\n".join(f'<h2 id="{s.anchor}">{html.escape(s.title)}</h2>\n{s.body}' for s in sections)
    return f"""<!doctype html>
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
