"""Each module of the package belongs to one mechanism that docs/design.md names, with its reason and its size."""

from __future__ import annotations

from collections import Counter

from tests.mechanisms import DESIGN, mechanisms, owners, sizes


def test_each_module_serves_somebody() -> None:
    """
    Each module stands in one row of the table of mechanisms, each name in the table has a module, and each row says for
    whom it is. Its size is right to a quarter; `make readme` counts it anew.
    """
    text = DESIGN.read_text("utf-8")
    rows = mechanisms(text)
    named = Counter(name for row in rows for name in row.modules)
    assert [name for name, count in named.items() if count > 1] == []
    found = owners(text)
    assert [path for path, name in found.items() if name is None] == []
    assert named.keys() - set(found.values()) == set()
    assert [row.name for row in rows if len(row.reason) < 10] == []
    wrong = [row.name for row, size in zip(rows, sizes(text), strict=True) if abs(row.size - size) > max(40, size / 4)]
    assert wrong == [], "run `make readme`"
