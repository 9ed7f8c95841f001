"""Duplicates and contradictions: texts that repeat each other, or differ in numbers or negation. Bounded memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.rows import Place, StoredChunk
from spellbook.index.extract import folded
from spellbook.index.filters import Condition, fold
from spellbook.index.opened import Index, Progress
from spellbook.index.privacy import ON_PURPOSE
from spellbook.models.base import Vectors, score
from spellbook.notes.labels import CHECKPOINT
from spellbook.notes.note import Note
from spellbook.notes.titles import begins_with
from spellbook.system.lazy import np, regex
from spellbook.text import diff
from spellbook.text.languages import declared, differ, marks, written_in
from spellbook.text.unicode import without_ending

DUPLICATE = 0.95
"""From this score on, a text counts as a duplicate; the scale of each embedder is made to fit (`calibration`)."""

LIKELY = 0.88
"""From this score on, a text with the same labels may be one: 93 % of Korean paraphrases reach it (KLUE-STS)."""

NEAREST = 10
"""Chunks that are compared for each chunk of a memory. By hand."""

NEAR = 0.7
"""
Score from which on a chunk is compared by its text alone, without title and labels. 98 % of the texts that say the
same reach 0.8 in spite of other labels (KLUE-STS).
"""
MOST_BY_TEXT = 10
"""Chunks that are compared by their text alone. By hand."""

SAME_THING = 0.78
"""
Score of the text below its headings from which on a memory is about the same thing. Of 20 memories that overturn an
older one 15 name it, of 20 that only resemble one 7, and none of them any other (half for choosing).
"""
MOST_OVERTURNED = 3
"""Older memories that a new one is said to overturn perhaps."""

APART = (CHECKPOINT, "article")
"""Categories whose notes overturn only notes of the same."""

# By hand, as are the following: a block of 2,000 by 2,000 cosines takes 16 MB.
_BLOCK = 2_000  # vectors
_AT_ONCE = 2_000  # chunks that are read at once
_MOST_NEAR = 20  # links of one vector to others of a block: groups are joined through each other
_MOST_DOUBTS = 5  # pairs of one chunk that are looked at for a contradiction
_LEAST_WORDS = 3  # below its headings; a chunk with fewer is not compared
_COMPARED = (Condition("category", ("system",), negated=True), ON_PURPOSE)
_TITLE = regex(r"\s*#[ \t]")
_HEADING = regex(r" {0,3}#{1,6}(?:[ \t]|$)")
_WORD = regex(r"\w+")


@dataclass(frozen=True, slots=True)
class AlikeChunks:
    """Chunks that repeat each other in one language; `score` is 1 for equal words, else the lowest that joins them."""

    chunks: tuple[Place, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two chunks that differ only in numbers or a negation; `parts` are the differing parts, side by side."""

    chunks: tuple[Place, Place]
    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The texts of a vault that repeat each other, likest first, and the pairs that contradict."""

    duplicates: tuple[AlikeChunks, ...]
    contradictions: tuple[Contradiction, ...]


@dataclass(frozen=True, slots=True)
class ComparedChunk:
    """
    A chunk to compare, without its text: `words` is a hash of its text without the `numbers`, `subject` its headings.

    `subject` begins with its title. `language` is that of its note's frontmatter.
    """

    chunk: int
    place: Place
    key: str
    words: str
    numbers: tuple[str, ...]
    subject: str
    language: str

    @classmethod
    def of(cls, chunk: StoredChunk, note: Note) -> ComparedChunk | None:
        """Return a chunk of `note` to compare, None if it has next to no text below its headings."""
        if len([*islice(_WORD.finditer(below_headings(chunk.text)), _LEAST_WORDS)]) < _LEAST_WORDS:
            return None
        # A person's title for a note is its file's name; that of a memory is made from its text, unless it was given.
        file = without_ending(chunk.path.rpartition("/")[2])
        is_of_file = chunk.title == file and not (note.meta.get("title") or _TITLE.match(chunk.text))
        is_made = note.kind == "memory" and (is_of_file or begins_with(chunk.text.strip(), chunk.title))
        subject = fold(" > ".join(filter(None, ("" if is_made else chunk.title, chunk.heading))))
        masked, numbers = diff.masked(chunk.text)
        language = declared(note.meta.get("language") or note.meta.get("lang"))
        return cls(chunk.number, chunk.place, chunk.key, folded(masked), numbers, subject, language)

    @property
    def content(self) -> tuple[str, tuple[str, ...]]:
        """Words and numbers, which are equal in equal texts. The numbers distinguish `1.5` from `15`."""
        return self.words, self.numbers


def below_headings(text: str) -> str:
    """Return a text without the lines of its headings, which many notes share."""
    return "\n".join(line for line in text.split("\n") if not _HEADING.match(line)).strip()


class _Groups:
    """The numbers below `size` in groups of one language, each with the least score that joined it (union-find)."""

    def __init__(self, size: int) -> None:
        self._parents = list(range(size))
        self._least = [1.0] * size
        self._languages: dict[int, str] = {}

    def root(self, i: int) -> int:
        while self._parents[i] != i:
            self._parents[i] = i = self._parents[self._parents[i]]
        return i

    def join(self, i: int, j: int, score: float, languages: tuple[str, str]) -> None:
        i, j = self.root(i), self.root(j)
        known = [self._languages.get(root) or language for root, language in zip((i, j), languages, strict=True)]
        if differ(*known):
            return
        i, j = min(i, j), max(i, j)
        self._parents[j] = i
        self._languages[i] = max(known, key=len)
        self._least[i] = min(score, self._least[i], self._least[j])

    def listed(self) -> list[tuple[list[int], float]]:
        groups: dict[int, list[int]] = defaultdict(list)
        for i in range(len(self._parents)):
            groups[self.root(i)].append(i)
        return [(members, self._least[root]) for root, members in groups.items() if len(members) > 1]


def repeated(index: Index, progress: Progress | None = None) -> Repeated:
    """Compare all texts of the vault, as the index has it, but for guides (category `system`) and captured sessions."""
    pieces: dict[tuple[str, int], ComparedChunk] = {}
    with index.catalog.reading():
        keys = index.catalog.keys(_COMPARED)
        for start in range(0, len(keys), _AT_ONCE):
            for chunk in index.catalog.by_key(keys[start : start + _AT_ONCE], _COMPARED):
                # The frontmatter as the catalog has it, interpreted as a note's.
                if piece := ComparedChunk.of(chunk, Note(chunk.path, "", chunk.meta, 0, 0, ())):
                    pieces[chunk.path, chunk.ordinal] = piece
    return _compare(index, [pieces[place] for place in sorted(pieces)], progress)


def _compare(index: Index, pieces: Sequence[ComparedChunk], progress: Progress | None) -> Repeated:
    """
    Return which of `pieces`, in reading order, repeat each other and which contradict.

    A pair contradicts if it is about one thing or near by its vectors, and the texts differ in numbers or negations
    alone; then it is no repeat, and neither is a translation. Chunks without a vector are compared by words.
    """
    groups, in_files = _Groups(len(pieces)), marks({piece.place.path for piece in pieces})
    doubted: dict[tuple[object, ...], tuple[int, int]] = {}
    doubts: Counter[int] = Counter()
    firsts: dict[tuple[object, ...], list[int]] = {}
    forms: dict[tuple[str, str], int] = {}

    @cache
    def language_of_text(i: int) -> str:
        return "".join(written_in(chunk.text) for chunk in index.catalog.by_number([pieces[i].chunk]))

    def named_language(i: int) -> str:
        """Return the language that frontmatter or file names; if only its translations are marked, that of its text."""
        mark = in_files.get(pieces[i].place.path)
        return pieces[i].language or (mark if mark or mark is None else language_of_text(i) or "original") or ""

    def doubt(i: int, j: int) -> None:
        # Once for each pair of texts, however many chunks have them; and a few for each chunk.
        if doubts[j] < _MOST_DOUBTS and (contents := (*pieces[i].content, *pieces[j].content)) not in doubted:
            doubted[contents] = (i, j)
            doubts[j] += 1

    for i, piece in enumerate(pieces):
        first = firsts.setdefault(piece.content, [])  # one of each language
        language = named_language(i)
        twin = next((other for other in first if not differ(named_language(other), language)), None)
        if twin is None:
            first.append(i)
        else:
            groups.join(twin, i, 1.0, (named_language(twin), language))
        other = forms.setdefault((piece.words, piece.subject), i)
        if piece.numbers != pieces[other].numbers:
            doubt(other, i)
    for i, j, likeness in _near(index, pieces, progress):
        a, b = pieces[i], pieces[j]
        if groups.root(i) == groups.root(j):
            continue
        if a.words == b.words and a.numbers != b.numbers:
            # Both have numbers of their own, which distinguish things such as days or servers.
            is_series = a.subject != b.subject and diff.masked(a.subject)[0] == diff.masked(b.subject)[0]
            if not is_series:
                doubt(i, j)
        elif _contradiction(index.catalog, a, b):
            doubt(i, j)
        else:
            own, others = (named_language(each) or language_of_text(each) for each in (i, j))
            groups.join(i, j, likeness, (own, others))
    contrary = [
        Contradiction((pieces[i].place, pieces[j].place), parts)
        for i, j in doubted.values()
        if (parts := _contradiction(index.catalog, pieces[i], pieces[j]))
    ]
    contrary.sort(key=lambda pair: [(place.path, place.line) for place in pair.chunks])
    return Repeated(_alike(groups, pieces), tuple(contrary))


def _alike(groups: _Groups, pieces: Sequence[ComparedChunk]) -> tuple[AlikeChunks, ...]:
    """Return the groups of pieces of several notes, the first piece of each note, likest first."""
    alike = []
    for members, least in groups.listed():
        places = {pieces[i].place.path: pieces[i].place for i in reversed(members)}
        if len(places) > 1:
            alike.append(AlikeChunks(tuple(reversed(places.values())), round(least, 3)))
    return tuple(sorted(alike, key=lambda group: (-group.score, group.chunks[0].path, group.chunks[0].line)))


def _contradiction(catalog: Catalog, a: ComparedChunk, b: ComparedChunk) -> tuple[tuple[str, str], ...]:
    texts = {chunk.number: chunk.text for chunk in catalog.by_number([a.chunk, b.chunk])}
    return diff.contradiction(texts.get(a.chunk, ""), texts.get(b.chunk, ""))


def _near(index: Index, pieces: Sequence[ComparedChunk], progress: Progress | None) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of pieces that are duplicates by their vectors, with their scores."""
    catalog = index.catalog
    if catalog.fingerprint != index.embedder.fingerprint:
        return  # the vectors are of another embedder
    at: dict[str, int] = {}
    for i, piece in enumerate(pieces):
        at.setdefault(piece.key, i)
    there = catalog.vectors.has(at)
    keys = [key for key in at if key in there]
    if not keys:
        return
    scale = index.embedder.scale
    least = float(np.interp(DUPLICATE, [points for _, points in scale], [cosine for cosine, _ in scale]))

    def block(start: int) -> Vectors:
        part = keys[start : start + _BLOCK]
        blobs = catalog.vectors.of(part)
        gone = bytes(len(next(iter(blobs.values()), b"")))  # evicted a moment ago: equal to nothing
        return np.frombuffer(b"".join(blobs.get(key, gone) for key in part), dtype="<f4").reshape(len(part), -1)

    done = 0
    starts = range(0, len(keys), _BLOCK)
    for top in starts:
        upper = block(top)
        pairs = np.zeros(len(upper), dtype=int)  # of each row so far
        for left in range(top, len(keys), _BLOCK):
            cosines = upper @ (upper if left == top else block(left)).T
            near = cosines >= least
            near = np.triu(near, 1) if left == top else near
            touched = np.flatnonzero(near.any(axis=1))  # searching all rows would take longer than the product
            rows, columns = np.nonzero(near[touched])
            rows = touched[rows]
            # In a large group of similar texts, a few links for each row suffice.
            few = np.arange(len(rows)) - np.searchsorted(rows, rows) + pairs[rows] < _MOST_NEAR
            pairs += np.bincount(rows, minlength=len(upper))
            rows, columns = rows[few], columns[few]
            for i, j, cosine in zip(rows.tolist(), columns.tolist(), cosines[rows, columns].tolist(), strict=True):
                yield at[keys[top + i]], at[keys[left + j]], score(cosine, scale)
            done += 1
            if progress:
                progress("comparing", done, len(starts) * (len(starts) + 1) // 2)
