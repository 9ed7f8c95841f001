"""korean: particles and endings are removed, and nothing else."""

from __future__ import annotations

import pytest

from spellbook.text.korean import stem


@pytest.mark.parametrize(
    ("word", "expected"),
    [("도커를", "도커"), ("도커에서의", "도커"), ("사용자들에게는", "사용자"), ("설정합니다", "설정"), ("친절하셨습니다", "친절"), ("이미지를", "이미지"),
     ("훅을", "훅"), ("아이", "아이"), ("지도", "지도"), ("도커", "도커"), ("를", "를"), ("", "")],
)  # fmt: skip
def test_stem(word, expected):
    """Particles and endings are removed; similar endings of other words stay."""
    assert stem(word) == expected
