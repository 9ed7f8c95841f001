"""An index after any history, compared with one that is built now."""

from pathlib import Path

from tests.helpers import from_scratch, opened, told


def assert_equal_to_scratch(vault: Path, fresh_state: Path) -> None:
    """Assert that the index of `vault` is the one that would be built from nothing, and that nothing is astray in it."""
    with opened(vault) as index:
        actual, expected = told(index), from_scratch(vault, fresh_state)
    for name, said in expected.items():
        assert actual[name] == said, name
    assert (actual["missing"], actual["stray"], actual["unsound"]) == ([(0,)], [], [])
