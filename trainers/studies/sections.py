"""The paper's sections of the report: its tables, and a verdict on each of its claims."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from . import claims
from .layout import tables_of
from .report import Section
from .results import groups

if TYPE_CHECKING:
    from .results import Result

_CLASSES = {claims.HOLDS: "holds", claims.DOES_NOT_HOLD: "fails"}


def report_sections(results: list[Result]) -> list[Section]:
    """What `evaluation.write_report` takes as `sections` to compare runs with the paper.

    Args:
        results: `evaluation.Result`s.

    Returns:
        The paper's tables, and for each network and dataset a verdict on each of its claims.

    Example:

    >>> [section.title for section in paper.report_sections(evaluation.collect(["run"]))][:1]
    ['Tables']
    """
    grouped = groups(results)
    made = [Section("Tables", tables_of(results))]
    for (architecture, dataset), own in grouped.items():
        if own[0].recipe.own_data is not None:
            continue  # The paper claims nothing about other people's images.
        of = f": {architecture} on {dataset}" if len(grouped) > 1 else ""
        items = "".join(map(_item, claims.check_runs(own)))
        parts = [f"<p>{claims.NOTE}</p>", f'<ul class="claims">{items}</ul>']
        made.append(Section(f"The paper's claims{of}", parts))
    return made


def _item(verdict):
    return (
        f'<li class="{_CLASSES.get(verdict.verdict, "open")}"><p><span class="verdict">'
        f"{html.escape(verdict.verdict)}</span>{html.escape(verdict.claim.statement)} "
        f"<small>{html.escape(verdict.claim.source)}</small></p>"
        f'<p class="evidence">{html.escape(verdict.evidence)}</p></li>'
    )
