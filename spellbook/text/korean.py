"""The stem of a Korean word, by a list of frequent particles and endings, and the particle that fits a value. Pure."""

from __future__ import annotations

import re

_PARTICLE_LIST = """
은 는 이 가 을 를 의 에 와 과 로 도 만 들 란 나 께 에서 에게 께서 으로 로서 로써 부터 까지 보다 처럼 마다 이나 이란 라는
라고 에는 에도 들이 들은 들을 들의 들에 들과 들도 만을 만이 이고 이며 이면 이다 인가 인지 에의 와의 과의 로의 로는
에게서 으로서 으로써 이라는 이라고 에서는 에서도 에서의 으로는 으로의 까지의 부터의 이라면 입니다 인가요 일까요
"""
_ENDING_LIST = """
하기 하는 하고 하여 해서 했다 한다 하면 하지 하게 하며 했던 했고 해야 할까 합니다 하세요 하려면 하려고 하도록 하는데
하나요 할까요 했습니다 되는 되고 되어 돼서 된다 되면 되지 되게 되며 됐다 됩니다 되나요 될까요 되었다 되었습니다 됐습니다
시키는 시키기 시킨다 시킵니다 스러운 적인 적으로 습니다 습니까 는다 는데 는지 어요 아요 지요 네요 나요 까요 니다 니까
었다 았다 었던 았던 으면 으며 으니 어서 아서 어야 아야 지만 거나 도록 면서 으면서 었습니다 았습니다 한 할 해 된 될 돼 하
되 했 됐 하셨 하시 하십 하신 하실 하였 하겠 해요 해주 해준 되셨 되시 되었 되겠 시켜 시켰 셨 시겠 겠 었 았 였 이었 이였
스러워 스럽 스럽게 스런 세요 주세요 합시다 거야 는거야 예요 이에요 에요 님 분
"""
PARTICLES = frozenset(_PARTICLE_LIST.split())
"""Particles, such as `은` and `에서`, that follow a noun without a blank."""

_ENDINGS = PARTICLES.union(_ENDING_LIST.split())
_LONGEST_ENDING = max(map(len, _ENDINGS))
# After one syllable, most particles may as well be part of the word: 아이, 지도, 서로, 나이.
_ALWAYS_PARTICLES = frozenset("을를은는")

_OPEN_FORMS = {"은": "는", "이": "가", "을": "를", "과": "와", "으로": "로", "이라": "라", "이나": "나"}
"""The form after a closed syllable: the form after an open one."""

_CLOSED = re.compile(r"[lmn]$|[lmn]e$|ng$|(?<![aeiou])[aeiou](?:ck|[ckpt])$|(?:ook|out|eep)$")
"""Ends of English words that Korean reads with a final consonant: model, file, git, topic, hook, stdout."""

_IS_WORD = re.compile(r"(?=.{4}).*[AEIOUY]")
"""Capital letters that are read as a word, such as QUERY; shorter ones are spelt."""

_CLOSED_NAMES = frozenset("013678LMNR")
"""Digits and capital letters whose names end with a consonant: 일, 엘."""

_READ_RIEUL = re.compile(r"le?$|[178LR]$")
"""Readings that end with ㄹ, after which 으로 is 로."""

_ASIDE = re.compile(r"(?<=\S)\s*(?:\([^()]*\)|\[[^][]*\])$")


def stem(word: str) -> str:
    """Return a Korean word without the particles and endings of the list; words of two syllables keep most."""
    shortest = 1
    while True:
        sizes = range(min(_LONGEST_ENDING, len(word) - shortest), 0, -1)
        size = next((size for size in sizes if word[-size:] in _ENDINGS), 0)
        if not size or (len(word) == 2 and word[-1] not in _ALWAYS_PARTICLES):
            return word
        word, shortest = word[:-size], 2


def particle(value: str, closed: str) -> str:
    """Return the particle that fits how `value` is read: `closed`, or its form after a vowel. An aside is not read."""
    opened = _OPEN_FORMS[closed]
    read = _ASIDE.sub("", value.strip("'\"`”’…. ")).rstrip("'\"`)]}”’…. ")
    last = read[-1:]
    if "가" <= last <= "힣":
        final = (ord(last) - ord("가")) % 28
        is_closed, is_rieul = final > 0, final == 8
    elif last.isascii() and last.isalnum():
        word = re.split(r"[^A-Za-z\d]", read)[-1]
        word = word.lower() if _IS_WORD.match(word) else word
        is_closed = bool(
            last in _CLOSED_NAMES if last.isdigit() or word.upper() == word else _CLOSED.search(word.lower())
        )
        is_rieul = bool(_READ_RIEUL.search(word))
    elif last == "%":  # read 퍼센트
        return opened
    else:
        return f"{closed}({opened})"
    return closed if is_closed and not (closed == "으로" and is_rieul) else opened
