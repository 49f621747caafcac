"""One web page with tables, pictures and the paper's claims, from evaluated runs.

The page holds all that it shows: style and pictures are inside it, there is no script, and nothing
is fetched.
"""

import base64
import datetime
import html
import pathlib
from importlib import resources

from s2d_tf import __version__, files
from s2d_tf.evaluation import drawing, report_tables, tables
from s2d_tf.evaluation.results import collect, for_claims, groups
from s2d_tf.paper import claims
from s2d_tf.paper.table_set import tables_of

FILE_NAME = "report.html"
PIXELS_PER_INCH = 108
_CLASSES = {claims.HOLDS: "holds", claims.DOES_NOT_HOLD: "fails", claims.NOT_RUN: "open"}


def write_report(directories, out, data_dir=None, log=print):
    """Writes `report.html` and its pictures.

    Args:
        directories: evaluated run directories.
        out: folder to write to; the pictures also lie there, under `figures/`.
        data_dir: TFDS folder.
        log: function that gets lines for a person.

    Returns:
        Path of the page.
    """
    # Here and not above: it brings TensorFlow, and mistakes in the arguments should come first.
    results = collect(directories)
    from s2d_tf.evaluation import report_pictures

    out = pathlib.Path(out)
    grouped = groups(results)
    sections = [_section("tables", "Tables", _tables(results))]
    for (architecture, trained_on), own in grouped.items():
        slug = f"{architecture}-{trained_on}"
        pictures = report_pictures.draw(own, out / "figures" / slug, data_dir, log)
        heading = f"{architecture} on {trained_on}" if len(grouped) > 1 else ""
        sections += [
            _section(f"claims-{slug}", _title("The paper's claims", heading), _claims(own)),
            _section(f"pictures-{slug}", _title("Pictures", heading), _pictures(pictures)),
            _section(f"more-{slug}", _title("Beyond the paper", heading), _more(own)),
        ]
    sections.append(_section("made-from", "Made from", _provenance(results)))
    path = out / FILE_NAME
    files.write_text(path, _page(results, sections))
    return path


def _title(text, heading):
    return f"{text}: {heading}" if heading else text


def _section(anchor, title, body):
    return anchor, title, f'<h2 id="{html.escape(anchor)}">{html.escape(title)}</h2>\n{body}'


def _tables(results):
    made = tables_of(results)
    return "".join(_table(table) for table in made)


def _table(table):
    text = tables.render(table, "html") if table is not None else ""
    return text.replace("<td>not run", '<td class="blank">not run')


def _claims(results):
    items = []
    for verdict in claims.check_all(for_claims(results)):
        items.append(
            f'<li class="{_CLASSES[verdict.verdict]}"><p><span class="verdict">'
            f"{html.escape(verdict.verdict)}</span>{html.escape(verdict.statement)} "
            f"<small>{html.escape(verdict.source)}</small></p>"
            f'<p class="evidence">{html.escape(verdict.evidence)}</p></li>'
        )
    note = (
        "<p>Each claim of the paper, checked against the means over seeds of the runs at hand. "
        "On another network or with few seeds a claim may fail here and hold there.</p>"
    )
    return f'{note}<ul class="claims">{"".join(items)}</ul>'


def _pictures(pictures):
    return "".join(
        f'<h3>{html.escape(p.title)}</h3><figure class="picture"><div class="scroll">'
        f'<img src="data:image/png;base64,{_encoded(p.path)}" alt="{html.escape(p.caption)}"'
        f' style="max-width:{_shown_width(p.path)}px"></div>'
        f"<figcaption>{html.escape(p.caption)}</figcaption></figure>\n"
        for p in pictures
    )


def _encoded(path):
    return base64.b64encode(pathlib.Path(path).read_bytes()).decode("ascii")


def _shown_width(path):
    """Pixels on the page: letters are as large in a narrow picture as in a wide one."""
    width = int.from_bytes(pathlib.Path(path).read_bytes()[16:20], "big")  # PNG's first field.
    return round(width * PIXELS_PER_INCH / drawing.DPI)


def _more(results):
    measured = {key.split("/")[0] for r in results for key in r.metrics if "/auroc/" in key}
    ood = [name for name in results[0].recipe.out_of_distribution if name in measured]
    made = [
        report_tables.calibration_table(results),
        report_tables.rejection_table(results),
        report_tables.false_alarm_table(results, ood) if ood else None,
        report_tables.twins_table(results),
        report_tables.intervals_table(results),
        report_tables.cost_table(results),
    ]
    return "".join(_table(table) for table in made)


def _provenance(results):
    facts = {}
    for result in results:
        for key, value in result.metrics.items():
            if key.startswith(("data/", "versions/")):
                facts.setdefault(key, set()).add(str(value))
    prints = {k.split("/")[1]: v for k, v in facts.items() if k.endswith("/fingerprint")}
    missing = sorted({name for r in results for name in r.missing_data})
    rows = "".join(
        f"<li>{html.escape(name)}: <code>{html.escape(', '.join(sorted(value)))}</code></li>"
        for name, value in prints.items()
    )
    versions = ", ".join(
        f"{key.split('/')[1]} {' and '.join(sorted(value))}"
        for key, value in facts.items()
        if key.startswith("versions/")
    )
    absent = f"<p>Not available: {html.escape(', '.join(missing))}.</p>" if missing else ""
    return (
        f"{_table(report_tables.runs_table(results))}<h3>Data</h3><p>SHA-256 over all test images "
        f"and labels, whatever their order:</p><ul>{rows}</ul>{absent}"
        f"<h3>Versions</h3><p>{html.escape(versions)}</p>"
    )


def _page(results, sections):
    css = resources.files("s2d_tf.evaluation").joinpath("report.css").read_text("utf-8")
    links = "".join(
        f'<a href="#{html.escape(anchor)}">{html.escape(title)}</a>'
        for anchor, title, _ in sections
    )
    networks = sorted({r.recipe.architecture for r in results})
    today = datetime.date.today().isoformat()
    subtitle = f"{len(results)} trained models of {', '.join(networks)}. {today}."
    body = "\n".join(text for _, _, text in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Uncertainty report</title>
<style>
{css}</style>
</head>
<body>
<header><div><h1>How good, how sure, and why in doubt</h1>
<p>{html.escape(subtitle)}</p></div></header>
<nav aria-label="Sections"><div>{links}</div></nav>
<main>
{body}
<footer>Made by s2d_tf {html.escape(__version__)}.</footer>
</main>
</body>
</html>
"""
