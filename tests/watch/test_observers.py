"""The events of Windows and macOS, as watchdog has them, and their signs that some were lost."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
from watchdog import events

from spellbook.watch import hints as hints_of
from spellbook.watch import observers
from tests.helpers import PATIENCE

VAULT = os.path.join(os.sep, "v")
FOLDER_GONE = events.FileDeletedEvent(os.path.join(VAULT, "proj"))


@pytest.mark.parametrize(
    ("event", "tells_folders", "hint"),
    [
        pytest.param(FOLDER_GONE, False, (True, []), id="Windows: a folder went"),
        pytest.param(FOLDER_GONE, True, None, id="Linux: a file without ending went"),
        pytest.param(events.FileDeletedEvent("/v/v1.2 notes"), False, (True, []), id="Windows: a folder with a dot"),
        pytest.param(
            events.FileDeletedEvent(os.path.join(VAULT, "a.md")), False, (False, ["a.md"]), id="Windows: a note went"
        ),
        pytest.param(events.FileDeletedEvent("/v/.git/x"), False, None, id="Windows: git's file went"),
        pytest.param(events.FileModifiedEvent("/v/a.png"), False, None, id="Windows: a picture changed"),
        pytest.param(events.DirMovedEvent("/v/a", "/v/b"), True, (True, []), id="a folder moved"),
        pytest.param(
            events.FileMovedEvent(os.path.join(VAULT, "a.md"), os.path.join(VAULT, "b.md")),
            True,
            (False, ["a.md", "b.md"]),
            id="a note moved",
        ),
    ],
)
def test_what_an_event_asks_to_scan(event: events.FileSystemEvent, tells_folders: bool, hint: Any) -> None:
    """A removed name without .md is a folder that went where the system does not say what it was."""
    with contextlib.closing(hints_of.Hints(VAULT, tells_folders=tells_folders)) as hints:
        hints.dispatch(event)
        assert hints.due(0.0, force=True) == hint


class Native(types.SimpleNamespace):
    """An event of FSEvents: a path, an inode, and the flags that are set."""

    def __getattr__(self, name: str) -> bool:
        return False


MANY = {"is_file": True, "inode": 1}
COALESCED = [
    pytest.param([Native(path="/v/a.md", is_created=True, is_modified=True, **MANY)], {"a.md"}, id="made and written"),
    pytest.param([Native(path="/v/a.md", is_created=True, is_removed=True, **MANY)], {"a.md"}, id="made and removed"),
    pytest.param(
        [Native(path=f"/v/{name}", is_renamed=True, is_modified=True, **MANY) for name in ("a.md", "b.md")],
        {"a.md", "b.md"},
        id="written and renamed",
    ),
    pytest.param([Native(path="/v/a.md", is_renamed=True, is_removed=True, **MANY)], {"a.md"}, id="moved out"),
    pytest.param([Native(path="/v", must_scan_subdirs=True, is_directory=True, inode=2)], None, id="too many"),
]


@pytest.mark.skipif(sys.platform == "win32", reason="its paths are those of POSIX")
@pytest.mark.parametrize(("native", "paths"), COALESCED)
def test_several_changes_in_one_event_of_macos(
    monkeypatch: pytest.MonkeyPatch, native: list[Any], paths: set[str] | None
) -> None:
    """
    FSEvents reports several changes of a file as one event: whatever they were, its path is scanned, by watchdog's own
    reading of it. Where it names a folder for too many changes, everything is.
    """
    if sys.platform != "darwin":  # the part of watchdog that only macOS has
        stub = types.ModuleType("_watchdog_fsevents")
        stub.Stream = lambda *_, **__: None  # type: ignore[attr-defined]
        stub.NativeEvent = Native  # type: ignore[attr-defined]
        stub.loaded = True  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "_watchdog_fsevents", stub)
        monkeypatch.delitem(sys.modules, "watchdog.observers.fsevents", raising=False)
    importlib.import_module("watchdog.observers.fsevents")
    with contextlib.closing(hints_of.Hints(VAULT)) as hints:
        observer = observers.on_mac(lambda: hints.add(None))
        hints.wake.clear()
        with contextlib.suppress(AttributeError):  # the stub's stream is none
            observer.schedule(hints, VAULT, recursive=True, event_filter=hints_of.USEFUL)
        emitter: Any = next(iter(observer.emitters))
        emitter.queue_events(1.0, list(native))
        while not observer.event_queue.empty():
            observer.dispatch_events(observer.event_queue)
        full, found = hints.due(0.0, force=True) or (False, [])
    assert (full, set(found)) == ((True, set()) if paths is None else (False, paths))


@pytest.mark.skipif(sys.platform != "win32", reason="the reader is Windows' own")
def test_lost_events_of_windows_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of Windows without a byte, its sign that the buffer was too small, asks for a scan of everything."""
    from watchdog.observers import winapi

    lost = threading.Event()
    monkeypatch.setattr(winapi, "ReadDirectoryChangesExW", lambda *_: None)
    observer = observers.on_windows(lost.set)
    observer.schedule(events.FileSystemEventHandler(), str(tmp_path), recursive=True)
    observer.start()
    assert lost.wait(PATIENCE)
    observer.stop()
    observer.join(PATIENCE)
