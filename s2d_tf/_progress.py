"""Progress that reads well where people look: a terminal, a notebook, a log file.

A terminal has one line that changes. A notebook has one output that changes, so that a saved cell
holds plain text without control codes. A file gets a line now and then.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

FILE_SECONDS = 60.0
"""Between lines of a log file."""
_IN_FILE = "{desc}{n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
_ENDLESS = "{desc}{n_fmt} [{elapsed}, {rate_fmt}{postfix}]"


class Screen(Protocol):
    """Where a bar is shown: how its line looks, how wide it is, and how often it comes."""

    layout: str | None
    seconds: float

    @property
    def columns(self) -> int | None: ...

    def show(self, text: str, final: bool) -> None: ...


class Bar:
    """Counts work, and shows how far it is and how long it takes.

    Args:
        total: amount of work; `None` where nobody knows.
        unit: what is counted.
        title: text before the bar.
        initial: work that was done before.
        shown: whether to show anything.
        stream: where to; default: the standard error.
        screen: a `Notebook` to share its output with other bars.

    Example:

    >>> with Bar(100, "image", shown=False) as bar:
    ...     bar.update(100)
    >>> bar.count
    100
    """

    def __init__(
        self,
        total: int | None,
        unit: str,
        title: str = "",
        initial: int = 0,
        shown: bool = True,
        stream: TextIO | None = None,
        screen: Screen | None = None,
    ) -> None:
        self.total = total
        self.count = self._initial = initial
        self._unit, self._title = unit, title
        self._screen = (screen or make_screen(stream)) if shown else None
        self._began = time.monotonic()
        # A line of a log comes after a while; a bar is there from the beginning.
        self._last = self._began if isinstance(self._screen, File) else 0.0
        self._postfix = ""
        self._lock = threading.Lock()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, count: int = 1, postfix: str = "") -> None:
        """Adds work that is done, from any thread; shows it if the last time is long ago."""
        with self._lock:
            self.count += count
            self._postfix = postfix or self._postfix
            now = time.monotonic()
            if self._screen is not None and now - self._last >= self._screen.seconds:
                self._last = now
                self._screen.show(self._text(self._screen), final=False)

    def close(self) -> None:
        """Shows the end, which stays."""
        if self._screen is not None:
            self._screen.show(self._text(self._screen), final=True)
            self._screen = None

    def _text(self, screen: Screen) -> str:
        import tqdm  # Here: a program that shows nothing does not need it.

        layout = screen.layout
        return tqdm.tqdm.format_meter(
            self.count,
            self.total,
            time.monotonic() - self._began,
            ncols=screen.columns,
            prefix=self._title and f"{self._title}: ",
            unit=self._unit,
            initial=self._initial,
            postfix=self._postfix or None,
            bar_format=layout and (layout if self.total else _ENDLESS),
        )


class Terminal:
    """One line that is written over."""

    layout: str | None = None
    seconds = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    @property
    def columns(self) -> int:
        return shutil.get_terminal_size().columns - 1

    def show(self, text: str, final: bool) -> None:
        # Spaces and not a control code: some terminals know only the return.
        self._stream.write(f"\r{text.ljust(self._width)}" + ("\n" if final else ""))
        self._stream.flush()
        self._width = 0 if final else len(text)


class File:
    """Lines, so few that a log stays short."""

    layout: str | None = _IN_FILE
    seconds, columns = FILE_SECONDS, None

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, text: str, final: bool) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


class Notebook:
    """One output of a cell, which holds all lines that are finished and the one under way."""

    layout: str | None = None
    seconds, columns = 0.3, 100

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display, self._handle = display, None
        self._lines: list[str] = []

    def show(self, text: str, final: bool) -> None:
        content = {"text/plain": "\n".join([*self._lines, text])}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
        if final:
            self._lines.append(text)


def make_screen(stream: TextIO | None = None) -> Screen:
    """What fits the process: `Notebook`, `Terminal` or `File`."""
    display = _notebook_display()
    if display is not None:
        return Notebook(display)
    stream = stream or sys.stderr
    return Terminal(stream) if stream.isatty() else File(stream)


def _notebook_display():
    """IPython's `display` inside of a notebook's kernel; `None` elsewhere."""
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    # By its name: only who has it gets here, so it is no dependency.
    return importlib.import_module("IPython.display").display
