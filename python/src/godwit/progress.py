"""Owns how the progress of a job is shown: by widgets in a notebook, by rich in a terminal, else by lines. Reads no job."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Optional, Protocol, Type, Union

from typing_extensions import Self

from .api.schemas import JobView
from .bottlenecks import BOTTLENECK_WORDS
from .shown import printable

# Without a terminal, one line in this time.
_LINE_EVERY = 10.0

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class Display(Protocol):
    """Shows a job."""

    def show(self, view: JobView) -> None:
        """Shows the job as it is now."""
        ...

    def __enter__(self) -> Any: ...

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> Optional[bool]: ...


def display(progress: Union[bool, Display], view: JobView) -> Display:
    """The display that fits where the program runs."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return Quiet()
    if _in_notebook():
        try:
            return Widgets(view)
        except ImportError:
            return Lines(sys.stdout)
    if sys.stderr.isatty():
        try:
            return Rich(view)
        except ImportError:
            pass
    return Lines(sys.stderr)


def size(number: float) -> str:
    """A number of bytes for people."""
    for unit in _UNITS:
        if number < 999.95 or unit == _UNITS[-1]:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("the last unit takes all")


def sentence(view: JobView) -> str:
    """One line about a job, for the eyes of a user: others chose its label."""
    progress = view.get("progress")
    reason = view.get("reason")
    said = [f"{view['label'] or view['id']}: {view['state']}"]
    if progress and view["state"] not in ("queued", "scheduled"):
        total = progress.get("bytes_total")
        said.append(size(progress["bytes"]) + (f" of {size(total)}" if total else ""))
        rate = progress.get("bytes_per_second")
        if rate:
            said.append(f"{size(rate)}/s")
        limited = progress.get("bottleneck")
        if limited:
            said.append("limited by " + BOTTLENECK_WORDS.get(limited, limited))
    elif reason:
        said.append(reason["text"])
    return printable(", ".join(said))


class Quiet:
    """Shows nothing."""

    def show(self, view: JobView) -> None:
        """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lines(Quiet):
    """Prints a line when the state changes, and now and then."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._state = ""
        self._at = 0.0

    def show(self, view: JobView) -> None:
        """Prints a line if it is time."""
        now = time.monotonic()
        if view["state"] != self._state or now - self._at >= _LINE_EVERY:
            self._state, self._at = view["state"], now
            print(sentence(view), file=self._file, flush=True)


class Rich(Quiet):
    """A bar in a terminal."""

    def __init__(self, view: JobView) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task(_name(view), total=None)

    def show(self, view: JobView) -> None:
        """Moves the bar."""
        progress = view.get("progress")
        if progress:
            total = None if progress.get("scanning") else progress.get("bytes_total")
            self._bar.update(self._task, completed=progress["bytes"], total=total)
        self._bar.update(self._task, description=f"{_name(view)} {view['state']}")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


class Widgets(Quiet):
    """A bar in a notebook."""

    def __init__(self, view: JobView) -> None:
        import ipywidgets  # type: ignore[import-untyped,unused-ignore]
        from IPython.display import display as show

        self._bar = ipywidgets.FloatProgress(min=0.0, max=1.0)
        self._text = ipywidgets.Label(sentence(view))
        show(ipywidgets.HBox([self._bar, self._text]))

    def show(self, view: JobView) -> None:
        """Moves the bar."""
        progress = view.get("progress")
        total = progress.get("bytes_total") if progress else None
        if progress and total:
            self._bar.value = progress["bytes"] / total
        if view["state"] == "complete":
            self._bar.value, self._bar.bar_style = 1.0, "success"
        elif view["state"] in ("failed", "partial", "cancelled"):
            self._bar.bar_style = "danger"
        self._text.value = sentence(view)


def _name(view: JobView) -> str:
    return printable(view["label"] or view["id"])


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    active = shell.get_ipython() if shell is not None else None
    return type(active).__name__ == "ZMQInteractiveShell"
