"""Words that a question is not asked by: stop words of English and Korean, and Korean particles and endings."""

from __future__ import annotations

_STOP_WORDS = """
a an and are as at be been being but by can could did do does for from had has have he her his how i if in into is it
its me my of on or our she should so than that the their them then there these they this those to us was we were what
when where which who whom whose why will with would you your
어떻게 무엇 무엇을 무엇이 무엇인가 무엇인가요 무슨 어떤 어디 어디서 언제 누가 누구 왜 것 것을
것이 것은 수 등 및 또는 그리고 그 이 저 때 있는 있다 있습니다 있나요 있을까요 하는 한다 합니다 하나요 할까요 해야 대한
대해 위한 위해 통해 뭐야 뭔가요 알려줘 알려주세요
"""
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

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""They are asked for only if a question has no other words."""

PARTICLES = frozenset(_PARTICLE_LIST.split())
ENDINGS = PARTICLES.union(_ENDING_LIST.split())
"""The most frequent Korean particles and endings; the stem before one is asked for as a word."""
