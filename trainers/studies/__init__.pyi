from . import claims as claims
from . import published as published
from .archiving import archive as archive
from .layout import paper_table as paper_table
from .layout import tables_of as tables_of
from .sections import report_sections as report_sections
