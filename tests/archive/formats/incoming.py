"""Files as other programs export them, and the notes they become."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

from spellbook.library.book import Spellbook


def written(place: Path, graph: dict[str, str | bytes]) -> Path:
    for name, data in graph.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return place


def body(book: Spellbook, path: str) -> str:
    return (book.config.vault / path).read_text("utf-8").split("---\n", 2)[2].strip("\n")


SERVICE = {
    "export_metadata": {"source_machine": "laptop", "total_memories": 2, "exporter_version": "8"},
    "memories": [
        {
            "content": "The deploy key is rotated every ninety days.\n\n# Why\n\nAudit.",
            "content_hash": "a1b2c3d4",
            "tags": ["ops", "keys"],
            "created_at": 1767225600.0,
            "updated_at": 1767312000.0,
            "memory_type": "note",
            "metadata": {"project": "river", "nested": {"x": 1}, "id": "evil", "bad key!": 1},
        },
        {
            "content": "민수는 오후 회의를 좋아한다.",
            "content_hash": "e5f6",
            "tags": "사람, 회의",
            "created_at": 1767225600.0,
        },
    ],
}


def notes(book: Spellbook) -> dict[str, Any]:
    book.reindex()
    return {chunk.note: chunk for chunk in book.recent(100).notes}


def zipped(files: dict[str, bytes | str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()
