"""The sentences of a text, in a form that survives rewriting."""

import pytest

from spellbook.text.sentences import are_mostly, ways

TEXT = (
    "The harbour crane lifts forty tons. The ferry leaves pier nine at dawn. Keys are rotated every Monday morning. "
    "Nobody walks on the old quay. The tide comes in at six today."
)


@pytest.mark.parametrize(
    ("text", "is_mostly"),
    [
        (TEXT, True),
        (TEXT.replace(". ", ".\r\n\r\n"), True),
        (f"> {TEXT.upper()}", True),
        ("- " + TEXT.replace(". ", ".\n- "), True),
        (f"Too short. {TEXT} Nor this.", True),
        (f"{TEXT} One more sentence that is quite new.", False),
        (f"One more sentence that is quite new. {TEXT}", False),
        ("", False),
        ("Too short.", False),
    ],
)
def test_a_text_that_is_mostly_known(text: str, is_mostly: bool) -> None:
    """Four fifths of the sentences make most of a text, wherever the others stand; those that are too short do not count."""
    known = {key for key in ways(TEXT)[0] if not key.startswith("thetide")}
    assert len(known) == 4
    assert are_mostly(text, 0.8, known.__contains__) is is_mostly
