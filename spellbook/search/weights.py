"""
Every number that ranking uses, with the measurement that set it.

"Benchmarks" is tests/benchmarks/README.md, the section on numbers measured elsewhere. "By hand" means that no
measurement set the number: it was chosen so that the effect is small beside a leg's share, and tests hold the effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

# -- retrieve

POOL = 50
"""Least number of candidates that each leg gives. By hand."""

CANDIDATES_A_HIT = 4
"""Candidates that each leg gives for each hit asked for, if that is more than POOL. By hand."""

SYNONYM = 0.8
"""
What a synonym is worth beside the word itself. Loose questions over React's documentation have an MRR of .332, with 0.5
of .325 (half for choosing); over memories .720 with either, .715 without synonyms.
"""

RARE_SYNONYM = 500
"""Chunks in which a synonym may be, to find chunks that nothing else finds. By hand, for speed."""

# -- fuse

SEMANTIC, KEYWORD = 0.7, 0.3
"""
Weights of the legs in `search`. Average nDCG@10 over nine question sets is 0.846, against 0.834 for meaning alone and
0.785 for reciprocal rank fusion with k = 60 (benchmarks). Other weights of the legs make next to no difference.
"""

FIRST, UNKNOWN_COST = 0.6, 0.2
"""
Share of the embedder where a second encoder reads a text too, and the most that a text loses which the second one does
not know. With 0.6 loose questions over React's documentation find an answer first in .27 of the cases (.19 by the
embedder alone), over memories in .63 (.51), and among five in .45 and .86; with 0.7 in .27 and .63, and .42 and .83
(halves for choosing). Where the question is whether there is an answer at all, the second encoder may confirm what the
embedder says, but not deny it: that would keep out .03 of the answers in one language, and .1 across languages.
"""

TITLED, TITLE_COST = 0.45, 0.08
"""
A text may count for what it says together with its note's title: the title's score replaces 0.45 of the text's, and
0.08 is taken off; with 0.05, Korean headings find English sections with an MRR of .63 instead of .65. A title in place
of the text (1.0) puts all chunks of a note at the same score: the sum of MRR and hit@5 of loose questions over two
vaults is 2.27 then, and 2.31 with 0.6 (halves for choosing).
"""

QUESTION_COST = 0.05
"""
What a question that a note names costs as its text. With it, a memory is found by its own questions; without the cost
it would outrank texts that say it.
"""

WHOLE = 0.05
"""
Share of the whole note (the mean of its chunks' vectors) in what a chunk scores by meaning. Between 0 and 0.1 loose
questions make no difference; with 0.2 fewer find an answer first (.18 of .24, half for choosing).
"""

NOTE_WORDS = 0.3
"""
Share of the words that the whole note has in the score by words. Between 0.3 and 0.5 loose questions make little
difference: MRR .330 and .327 over React's documentation, in English .48 and .45 (half for choosing).
"""

MOST_COMMON = 4_000
"""Chunks in which a word may be, to be looked for in whole notes. More say little, and take longer to read."""

CREDITED = 0.8
"""
Share of its meaning that a chunk in another language is credited with as words. With 0.7 mixed vaults lose up to .005
nDCG@10; with 0.9 loose questions over React's documentation in two languages find an answer first in .24 of the cases,
with 0.8 in .27 (half for choosing).
"""

PRESENT = 3.0
"""A script with a third of a chunk's letters counts as the chunk's own. By hand."""

ITS_WORDS = 0.5
"""
A chunk with this score by words is taken for one in the question's language. By hand; telling the languages of one
script apart lifts hit@5 in the other-language half of a Spanish and English vault from .66 to .86 (benchmarks).
"""

# -- rerank

RERANKED = 20
"""First candidates that a reranker judges. By hand."""

RERANK_WEIGHT = 0.6
"""How far a score moves towards the reranker's. By hand."""

# -- adjust

HALF_LIVES: Mapping[str, float] = MappingProxyType(
    {"": 365.0, "project": 180.0, "system": math.inf, "preference": math.inf, "decision": math.inf}
)
"""Days after which half of the loss by age has come, by category; "" is for all others. By hand; settings change it."""

HALF_LIVES_OF_TYPES: Mapping[str, float] = MappingProxyType(
    {"working": 2.0, "episodic": 90.0, "semantic": math.inf, "procedural": math.inf}
)
"""The same by a note's `type`, which goes before its category. By hand; settings change it."""

FADED = 0.15
"""Largest share of a score that age takes. By hand."""

IMPORTANCE = 0.04
"""What importance adds or takes for each 1.0 above or below 0.5, so 0.02 at most. By hand."""

PINNED = 0.05
"""What a pin adds. By hand."""

OPENED, MOST_OPENED = 0.01, 0.03
"""What use adds for each doubling of the times a note was opened, and the most it adds. By hand."""

FORGOTTEN_DAYS = 90.0
"""Half-life, in days, of what use adds. By hand."""

OUTCOMES: Mapping[str, float] = MappingProxyType({"success": 0.03, "partial": 0.0, "failed": -0.05})
"""
What the outcome of a decision adds. By hand: as much as use adds at most, and less than a leg's share, so that what
failed is still found by whoever is about to do it again.
"""

SUPERSEDED = 0.4
"""Share of its score that a superseded note loses, at least. By hand."""

THEN = 0.15
"""
What a date adds that the question says. Of 20 dated questions 6 find their note first without it, 15 with 0.05,
all with 0.1 or more (half for choosing). It only adds, and is small, so that a wrong guess hides nothing.
"""

NEWEST, NEWEST_AMONG = 0.12, 0.1
"""
Where the newest is asked for, what the newest of the best adds, half of it for the next, and so on; the best are those
whose scores are at most so far below the first. By hand: from 0.05 on, and among 0.1 to 0.2, the dated questions are
answered alike.
"""

# -- translations

IN_ITS_LANGUAGE = 0.1
"""
How far behind its translation a chunk in the question's language may be, to be shown in its place. Of 61 loose
questions over React's documentation, there in two languages, 20 have a hit in their language first without it, and 36
with 0.1; an answer is among five for 24 both times (half for choosing).
"""

SAYS_THE_SAME = 0.94
"""
From this score on, a chunk of a note's translation says the same; about half of React's sections reach it. With 0.8
more hits are in the question's language (41), but pages of which each language has other sections lose .02 nDCG@10;
with 0.9 `memorize` loses .013 there, with 0.94 nothing.
"""

# -- choose

FREE_PLACES = 1
"""Hits that a note may have without losing score: its title and its whole lift all its chunks together."""

CROWDED, MOST_CROWDED = 0.03, 0.12
"""
What each further hit of one note costs more than the one before, and the most it costs. Loose questions find as many
answers among five with 0.03 as with 0.10, and 2 % more than with two free places and 0.04 (half for choosing); headings
as questions for sections of one page lose .01 nDCG@10 with 0.05, and .03 with 0.10.
"""

REPEATED = 0.12
"""What a text costs that repeats an earlier hit. By hand."""

# -- is there an answer at all

FEW, FEW_TENFOLD = 0.28, 0.18
MANY, MANY_TENFOLD = 0.4725, 0.0125
"""
Evidence that the best hit needs among one chunk, and what each tenfold of chunks adds, in small and in large vaults.

What 7 % of the questions off topic reach grows with the chunks: a cosine of .21 in one, .28 in ten, .34 in a hundred,
.35 in 240. In vaults of three notes a constant 0.5 kept .77 of the answers (1 % off topic), this .92 (8 %). See
benchmarks, where it is `least`.
"""

WEAK = 0.3
"""Evidence that each further hit needs once the best is sure. By hand."""

CONFIRMING, EXPECTED = 0.4, 0.6
"""
How much words confirm or deny what meaning says, and which share of the question's known words an answer should hold.
Scores alone let 7 to 28 % of the questions off topic find something; with words 6 to 14 %, at the price of 1 % of the
questions that have an answer (benchmarks). Words are those of the chunk and of its note, as in the score: of loose
questions over React's documentation .80 are then answered, by the chunk's alone .77, and as few off topic.
"""

BY_WORDS_ALONE = 0.5 / 0.6
"""What a score by words is worth as evidence without meaning: 0.6 by words is as sure as 0.5. By hand."""

CLOSEST = 3
"""Most notes that are shown where nothing clearly answers. By hand."""

NEAR = 0.3
"""
Score and evidence from which on a note is among them. Of 28 loose questions over memories without a sure answer the
closest notes hold it for 14, with 0.35 for 7; of 40 questions off topic 7 are shown some, with 0.35 2 (benchmarks).
"""
