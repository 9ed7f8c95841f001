"""Stop words, English and Korean. Pure."""

from __future__ import annotations

_LIST = """
a an and are as at be been being but by can could did do does for from had has have he her his how i if in into is it
its me my of on or our she should so than that the their them then there these they this those to us was we were what
when where which who whom whose why will with would you your
어떻게 무엇 무엇을 무엇이 무엇인가 무엇인가요 무슨 어떤 어디 어디서 언제 누가 누구 왜 것 것을
것이 것은 수 등 및 또는 그리고 그 이 저 때 있는 있다 있습니다 있나요 있을까요 하는 한다 합니다 하나요 할까요 해야 대한
대해 위한 위해 통해 뭐야 뭔가요 알려줘 알려주세요
"""
STOP_WORDS = frozenset(_LIST.split())
"""Words, in lower case, that do not narrow a question, unless it has no others."""
