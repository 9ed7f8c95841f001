"""
Every number that ranking uses, with the measurement that set it.

"Benchmarks" is tests/benchmarks/README.md, the section on numbers measured elsewhere. "By hand": no measurement set the
number; its effect is small beside a leg's share, and tests hold the effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

# -- retrieve

POOL = 50
"""Least number of candidates that each leg gives. By hand."""

POOL_OF_SEVERAL = 12
"""The same of each text of a question of several, for speed; see `WORDS_OF_FURTHER`."""

WORDS, WORDS_OF_FURTHER = 64, 4
"""
Most words that a question is asked by, and the rarest ones of each further text, for speed: a question of three texts
takes 2.1 times one alone, and with more words finds no more (React's documentation, half for choosing).
"""

CANDIDATES_A_HIT = 4
"""Candidates that each leg gives for each hit asked for, if that is more than POOL. By hand."""

SYNONYM = 0.8
"""
Worth of a synonym beside the word itself. Loose questions over React's documentation have an MRR of .332, with 0.5 of
.325 (half for choosing); over memories .720 with either, .715 without synonyms.
"""

RARE_SYNONYM = 500
"""Chunks in which a synonym may be, to find chunks that nothing else finds. By hand, for speed."""

# -- fuse

SEMANTIC, KEYWORD = 0.7, 0.3
"""
Weights of the legs in `search`. Average nDCG@10 over nine question sets is 0.846, against 0.834 for meaning alone and
0.785 for reciprocal rank fusion with k = 60 (benchmarks). Other weights of the legs make next to no difference.
"""


class Blend(NamedTuple):
    """
    How the parts of a score by meaning are put together; see `scores.Match.meaning`.

    `first` is the embedder's share where a second encoder reads a text too; a text that the second does not know loses
    `unknown_cost` at most. The title's score replaces `titled` of the text's at a price of `title_cost`, if that is
    more. The whole note, the mean of its chunks by the embedder, has the share `whole`.
    """

    first: float
    unknown_cost: float
    titled: float
    title_cost: float
    whole: float


SCORE = Blend(first=0.6, unknown_cost=0.2, titled=0.45, title_cost=0.05, whole=0.05)
"""
Parts of scores by meaning. Of 120 draws of these numbers none was better by more than .02 on the half for choosing, or
at all on the other. With `title_cost` 0.05 loose questions over memories find their note first in .66 of the cases,
with 0.08 in .60 (half for choosing).
"""

EVIDENCE = SCORE._replace(unknown_cost=0.0)
"""
The same for the question whether there is an answer at all. The second encoder may confirm the embedder, but not deny:
that would keep out .03 of the answers in one language, and .1 across languages.
"""

UNKNOWN_LABEL_COST = 0.2
"""Most that a title or a question that the second encoder does not know costs, in scores and as evidence."""

QUESTION_COST = 0.05
"""
Cost of finding a text by a question that its note names. With it, a memory is found by its own questions; without the
cost it would outrank texts that say it.
"""

SAME_QUESTION = 0.95
"""From here on a note's question is the one asked: 53 of 59 other spellings reach it, 25 near questions at most .87."""

NOTE_WORDS = 0.3
"""
Share of the words that the whole note has in the score by words. Between 0.3 and 0.5 loose questions make little
difference: MRR .330 and .327 over React's documentation, in English .48 and .45 (half for choosing).
"""

MOST_COMMON = 4_000
"""Chunks in which a word may be, to be searched in whole notes. More say little, and take longer to read."""

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

JOINED = 2
"""
Texts of a question of several whose scores count, the best ones, by their mean. The maximum of the scores loses .3 to
one wrong guess, the mean of two .01; the maximum of the evidence answers 11 of 24 questions off topic, the mean 4.
"""

# -- memories for a prompt

FAVOURED: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "task": {"category": ("decision", "project"), "type": ("procedural",)},
        "conversation": {"category": ("preference",), "type": ("episodic",)},
    }
)
"""Kinds of memories that rank a little higher in a prompt for a task, and for a conversation."""

FAVOUR = 0.05
"""Score that a memory of a favoured kind gains there. By hand."""

# -- rerank

RERANKED = 20
"""First candidates that a reranker judges. By hand."""

RERANK_SECONDS = 2.0
"""Patience with a reranker."""

RERANK_LETTERS = 2_000
"""Letters of a chunk that a reranker is given."""

RERANK_WEIGHT = 0.6
"""How far a score moves towards the reranker's. By hand."""

# -- adjust

HALF_LIVES: Mapping[str, float] = MappingProxyType(
    {"": 365.0, "project": 180.0, "checkpoint": 14.0, "system": math.inf, "preference": math.inf, "decision": math.inf}
)
"""Days after which half of the loss by age has come, by category; "" is for all others. By hand; settings change it."""

HALF_LIVES_OF_TYPES: Mapping[str, float] = MappingProxyType(
    {"working": 2.0, "episodic": 365.0, "semantic": math.inf, "procedural": math.inf}
)
"""The same by a note's `type`, which goes before its category. By hand; settings change it."""

NO_TEXT_LOSS = 0.4
"""
Share of its score that a note without text loses, so that it ranks below notes that say something: its
title is all there is, so it would count fully. By hand.
"""

AS_MANY_WORDS = 0.4
"""Share of the score by words of a title alone from which a text says as much: the same words once each. By hand."""

FADED = 0.15
"""Largest share of a score that age takes. By hand."""

IMPORTANCE = 0.04
"""Gain or loss for each 1.0 of importance above or below 0.5, so 0.02 at most. By hand."""

PINNED = 0.05
"""Gain of a pinned note. By hand."""

SPOKEN = 0.05
"""
Gain of a turn of a conversation whose speaker the question names. Over three conversations of LoCoMo .710 of the
evidence is among five, without it .695; over the other seven .685 and .668. More gains nothing among ten.
"""

SESSION = "from a session, not kept on purpose"
"""The label of a captured session, and the reason of its loss."""

SESSION_LOSS = 0.15
"""
Share of its score that a session loses. Beside 200 of them .45 of memories come first (.43 alone), with 0.05 .42. An
assistant's turn of a conversation loses it too: over two chats of BEAM .521 of the evidence is among ten, without it
.404; over two others .268 and .220.
"""

OPENED = 0.01
"""Gain for each doubling of the times a note was opened. By hand."""

MOST_OPENED = 0.03
"""Most gain by use. By hand."""

FORGOTTEN_DAYS = 90.0
"""Half-life, in days, of the gain by use. By hand."""

OUTCOMES: Mapping[str, float] = MappingProxyType({"success": 0.03, "partial": 0.0, "failed": -0.05})
"""
Gain by a decision's outcome. By hand: as much as use adds at most, and less than a leg's share, so that a failed
decision is still found by someone about to do it again.
"""

SUPERSEDED = 0.4
"""Share of its score that a note loses if only it says that it is superseded, or its successor is hidden. By hand."""

LAPSED = 0.5
"""
Share of its score that a deprecated or stale note loses. In 20 pairs, Korean and English, in which it had the words of
the question, the note that holds had 0.56 of its score at least.
"""

LISTINGS = ("index.md", "log.md")
"""Names of files that list a folder and its changes, as the Open Knowledge Format has them."""

KEYS_OF_LISTINGS = frozenset({"okf_version"})
"""The keys of frontmatter that a listing may have."""

LISTED = 0.6
"""A listing stands below the notes of its folder that have at least this share of its score. By hand."""

OTHER_WORK = 0.4
"""
A checkpoint whose successor has less than this share of its score is about other work, and is not superseded. Asked for
in the words of a checkpoint, the next one of the same work has less in 9 % of the cases, one of other work more in 1 %
(12 pieces of work with 3 checkpoints each).
"""

DATED = 0.15
"""
Gain of a note with the date that the question names. Of 20 dated questions 6 find their note first without it, 15 with
0.05, all with 0.1 or more (half for choosing). It only adds, and is small, so that a wrong guess hides nothing.
"""

NEWEST, NEWEST_AMONG = 0.12, 0.1
"""
Gain of the newest of the best where the newest is asked for, half of it for the next, and so on; the best have scores
at most so far below the first. By hand: from 0.05 on, and among 0.1 to 0.2, the dated questions are answered alike.
"""

# -- choose

FREE_PLACES = 1
"""Hits that a note may have without losing score: its title and its whole lift all its chunks together."""

CROWDED, MOST_CROWDED = 0.03, 0.12
"""
Cost of each further hit of one note above that of the hit before, and the most it costs. The title lifts all chunks of
its note together. Korean headings that look for Korean sections have an nDCG@10 of .446, with 0.10 of .431; loose
questions find as many answers among five. A turn of a conversation costs nothing: an answer may need several, and of
LoCoMo's evidence .668 is among five, with the cost .629 (seven conversations that chose nothing).
"""

MOST_SESSIONS, FIRST_HITS = 2, 5
"""Most hits from captured sessions among so many first hits, unless they are asked for. By hand."""

REPEATED = 0.12
"""Cost of a text that repeats an earlier hit. By hand."""

# -- is there an answer at all

FEW, FEW_TENFOLD = 0.28, 0.18
MANY, MANY_TENFOLD = 0.4725, 0.0125
"""
Evidence that the best hit needs among one chunk, and its growth with each tenfold of chunks.

The evidence that 7 % of the questions off topic reach grows with the chunks. In vaults of three notes a constant 0.5
kept .77 of the answers (1 % off topic), this .92 (8 %). See benchmarks, where it is `least`.
"""

WEAK = 0.3
"""Evidence that each further hit needs once the best is sure. By hand."""

FAR_BELOW = 0.6
"""Share of the best score that a further hit needs unless it has the evidence of a best hit itself. By hand."""

CONFIRMING, EXPECTED = 0.2, 0.6
"""
How much words confirm or deny the meaning, and which share of the question's known words an answer should hold. Of
loose questions over memories .69 have an answer among five sure hits with 0.2, .57 with 0.4 (half for choosing). Scores
alone let 7 to 28 % of the questions off topic find something; with words 6 to 14 %, at the price of 1 % of the
questions that have an answer (benchmarks).
"""

ACROSS = 0.03
"""
Gain of a text in another language as evidence: the same answer is nearer to a question in its own. With it as many
answers across languages are sure as without the query adapter (.90 of XQuAD's, Chinese to English).
"""

BY_WORDS_ALONE = 0.5 / 0.6
"""Evidence of a score by words without meaning: 0.6 by words is as sure as 0.5. By hand."""

CLOSEST = 3
"""Most notes that are shown where nothing is sure. By hand."""

CLOSE, CLOSE_TENFOLD, MOST_CLOSE = 0.5, 0.14, 0.8
"""
Share of the evidence for a sure hit from which on something is shown as the closest: among one chunk, its growth with
each tenfold of chunks, and the most. Others beside it need the first of them.

At most 5 of 25 questions off topic are shown something (1.8 over three notes, 5.0 over sessions, 1.2 over React's
documentation). Of 109 questions with an answer that is not sure the first of the closest is right in 38 cases; with
.25 in score and evidence it was in 43, and 13 of 25 off topic were shown something (benchmarks).
"""
