"""Changing one line of config.toml keeps every other byte."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.settings.edit import with_categories, with_setting
from spellbook.system.errors import InvalidInput


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("", "hash", 'embedder = "hash"\n'),
        ("threads = 3\r\n", "hash", 'embedder = "hash"\r\nthreads = 3\r\n'),
        ("\ufeffthreads = 3", "hash", '\ufeffembedder = "hash"\nthreads = 3'),
        ("# embedder = 1", "hash", 'embedder = "hash"\n# embedder = 1'),
        ("embedder='a'#why\n[scopes]\n", "b", 'embedder="b"#why\n[scopes]\n'),
        (
            'threads = 3\n  embedder = "a"\n[scopes]\nembedder = "x"\n',
            "b",
            'threads = 3\n  embedder = "b"\n[scopes]\nembedder = "x"\n',
        ),
        ('[scopes]\nembedder = "x"\n', "b", 'embedder = "b"\n[scopes]\nembedder = "x"\n'),
        ('threads = 3\nembedder = "a"\n# end\n', "", "threads = 3\n# end\n"),
        ('embedder = "a"  # mine\n', "", 'embedder = ""  # mine\n'),
        ("threads = 3\n", "", "threads = 3\n"),
        ('"embedder" = "a"\n', "b", '"embedder" = "b"\n'),
        ('embedder = """a"""\n', "b", 'embedder = "b"\n'),
        (
            'threads = 3\nx = """\nembedder = "a"\n"""\n',
            "b",
            'embedder = "b"\nthreads = 3\nx = """\nembedder = "a"\n"""\n',
        ),
        ('embedder = "a"\n', 'onnx:C:\\é "q"', 'embedder = "onnx:C:\\\\é \\"q\\""\n'),
    ],
)
def test_the_embedder_is_set(before: str, name: str, after: str) -> None:
    """An existing value is replaced; otherwise a line is added at the top; "" removes it."""
    assert with_setting(before, "embedder", name) == after


@pytest.mark.parametrize("toml", ["embedder = \n", "embedder = 1\nembedder = 2\n"])
def test_what_is_no_toml_is_refused(toml: str) -> None:
    """A person has to mend settings that cannot be read."""
    with pytest.raises(InvalidInput):
        with_setting(toml, "embedder", "b")


@given(
    st.lists(st.sampled_from(["threads = 3", "# note", "", '# embedder = "x"', "cache_mb = 9 # mb"]), unique=True),
    st.sampled_from(["\n", "\r\n"]),
)
def test_there_and_back(lines: list[str], newline: str) -> None:
    """Setting and removing the value restores every byte; in between nothing else differs."""
    before = newline.join([*lines, "[half_lives]", "project = 1", ""])
    with_it = with_setting(before, "embedder", "hash")
    assert tomllib.loads(with_it) == {**tomllib.loads(before), "embedder": "hash"}
    assert with_setting(with_it, "embedder", "") == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[categories]\n"#a" = "b"\n'),
        ("threads = 1", 'threads = 1\n[categories]\n"#a" = "b"\n'),
        ("[scopes]\n'x/' = 'y'\n", "[scopes]\n'x/' = 'y'\n[categories]\n\"#a\" = \"b\"\n"),
        ("[categories]  # mine\nc = 'd'\n[scopes]\n", '[categories]  # mine\n"#a" = "b"\nc = \'d\'\n[scopes]\n'),
        ("# [categories]\r\n# c = 'd'\r\n", '# [categories]\r\n# c = \'d\'\r\n[categories]\r\n"#a" = "b"\r\n'),
    ],
)
def test_categories_are_added(before: str, after: str) -> None:
    """The lines come into the table, a new one where there is none; every other byte stays."""
    assert with_categories(before, {"#a": "b"}) == after


@pytest.mark.parametrize(
    "toml", ["x = [", "categories = {a = 'b'}", "[categories]\n'#a' = 'c'\n", 'a = """\n[categories]\n"""']
)
def test_categories_that_only_a_person_can_add(toml: str) -> None:
    """Settings that are broken, or written in another way, are left to a person."""
    with pytest.raises(InvalidInput, match="cannot be changed"):
        with_categories(toml, {"#a": "b"})
