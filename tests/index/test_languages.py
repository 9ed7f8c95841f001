"""The field `language`: known without frontmatter, in a vault of any version."""

from __future__ import annotations

import pytest

from spellbook.index import sync
from spellbook.text import languages
from tests.helpers import opened, rows

KOREAN = "어제 회의에서 저장소를 나누기로 했다. `git mv` 로 옮긴다.\n\n```python\nfor the_file in that_list: print('of')\n```"
ENGLISH = "We decided to split the repository, and this is what it was for."


def found(index):
    return rows(
        index.catalog, "SELECT path, value FROM fields JOIN notes USING (note) WHERE key = 'language' ORDER BY 1, 2"
    )


def test_notes_have_a_language_of_their_own_or_by_their_text(vault, write_note):
    """What is declared wins, also under `lang` and with a region; unclear text has none."""
    write_note("a.md", KOREAN)
    write_note("b.md", ENGLISH)
    write_note("c.md", KOREAN, language="en-GB")
    write_note("d.md", ENGLISH, lang="fr")
    write_note("e.md", "x = 1")
    write_note("f.md", ENGLISH, language="Klingon")
    with opened(vault) as index:
        sync.run(index)
        assert found(index) == [
            ("a.md", "ko"),
            ("b.md", "en"),
            ("c.md", "en"),
            ("c.md", "en-gb"),
            ("d.md", "fr"),
            ("f.md", "klingon"),
        ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (KOREAN, "ko"),
        (ENGLISH, "en"),
        ("これは日本語で書かれた文章です。", "ja"),
        ("Το βιβλίο είναι εδώ", "el"),
        ("Redis Kubernetes", ""),
        ("```\nthe of and to in is that\n```", ""),
        ("", ""),
    ],
)
def test_of_note(text, code):
    """Prose counts, code does not."""
    assert languages.of_note(text) == code
