"""The paper's tables and claims, on top of `evaluation`."""

from s2d_tf import _lazy

_HOMES = {
    "archive": "archiving",
    "paper_table": "layout",
    "report_sections": "sections",
    "tables_of": "layout",
}
_MODULES = ("claims", "published")

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES, _MODULES)
