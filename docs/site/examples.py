"""Shows the examples in docstrings as code: an extension of Griffe, which reads the sources."""

import re
from typing import Any

import griffe

# A session at the Python prompt, up to the next empty line.
_SESSION = re.compile(r"^>>> .*(?:\n.*\S.*)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts fences around sessions, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = re.sub(r"^Example:$", "**Example**", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = _SESSION.sub(r"```pycon\n\g<0>\n```", text)
