"""A progress bar per GPU on a terminal's stderr while active tests run. Nothing in a pipe or log."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from gpudoctor.bench.model import Event


class BenchProgress:
    """Draws events as they come, from any thread."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> BenchProgress:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bars = Progress(
                TextColumn("{task.fields[label]:<9}", markup=False),
                TextColumn("{task.fields[test]:<8}", markup=False),
                BarColumn(bar_width=20),
                TextColumn("{task.percentage:>3.0f}%", markup=False),
                TextColumn("{task.fields[what]}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def on_event(self, event: Event) -> None:
        """One bar a device; the next test begins it anew."""
        from gpudoctor.render.safe import clean, cut

        if self._bars is None:
            return
        fields = {"test": event.test, "what": cut(clean(event.what), 28)}
        with self._lock:
            task = self._tasks.get(event.label)
            if task is None:
                task = self._bars.add_task("", total=1.0, label=event.label, **fields)
                self._tasks[event.label] = task
            self._bars.update(task, completed=event.done, **fields)
            for label, other in self._tasks.items():
                together = "all GPUs" in (label, event.label) and label != event.label
                self._bars.update(other, visible=not together)
