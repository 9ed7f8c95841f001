"""
Generated notes that resemble real ones: half English, half Korean, 5 KB on average, the same in every run.

Words follow Zipf's law around the subject of their note, and every note has names that few others have, so that the full-text
index and the vectors are as uneven as those of a real vault. Most notes are short and a few very long, and Markdown is used as
notes use it: frontmatter, sections, lists, tables, code, tags, and links to each other.
"""

import random
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

_THING_LISTS = {
    "en": """
    service database index query token session container image network key certificate backup schedule budget meeting customer
    invoice contract report release branch commit migration schema cache queue worker timeout retry limit quota region cluster volume
    secret password policy permission role user account profile setting option default flag metric alert dashboard log trace error
    exception handler router endpoint request response header cookie browser page component state effect hook form button layout font
    colour image icon chart table column row cell formula document section heading paragraph sentence word letter language
    translation model vector embedding score threshold filter ranking result memory note topic category decision reason preference
    habit recipe kitchen garden bicycle train ticket hotel passport insurance doctor appointment medicine exercise sleep book chapter
    author library lecture course exam degree school teacher student parent child birthday wedding present letter photograph camera
    """,
    "ko": """
    서비스 데이터베이스 색인 질의 토큰 세션 컨테이너 이미지 네트워크 열쇠 인증서 백업 일정 예산 회의 고객 송장 계약 보고서 배포 브랜치 커밋
    이전 스키마 캐시 대기열 작업자 제한 할당량 지역 클러스터 볼륨 비밀번호 정책 권한 역할 사용자 계정 설정 기본값 지표 경보 대시보드 기록
    추적 오류 예외 처리기 라우터 요청 응답 머리글 쿠키 브라우저 화면 부품 상태 효과 양식 단추 배치 글꼴 색상 그림 도표 표 열 행 수식 문서
    절 제목 문단 문장 단어 글자 언어 번역 모델 벡터 임베딩 점수 기준 필터 순위 결과 기억 메모 주제 분류 결정 이유 선호 습관 요리 부엌 정원
    자전거 기차 승차권 호텔 여권 보험 의사 예약 약 운동 잠 책 저자 도서관 강의 시험 학위 학교 선생님 학생 부모 아이 생일 결혼식 선물 편지
    사진 카메라 산책 여행 비행기 공항 식당 커피 시장 은행 세금 월급 이사 청소 수리 냉장고 세탁기 창문 지붕 겨울 여름 바다 강 산 숲 마을
    """,
}
_DEED_LISTS = {
    "en": """
    rotates checks keeps moves writes reads sends splits merges measures replaces removes explains limits delays repeats loads saves
    restores compares sorts counts prints locks opens closes starts stops follows needs breaks fixes
    """,
    "ko": """
    바꾼다 확인한다 보관한다 옮긴다 적는다 읽는다 보낸다 나눈다 합친다 잰다 대신한다 지운다 설명한다 제한한다 늦춘다 되풀이한다 불러온다
    저장한다 되돌린다 비교한다 정렬한다 센다 출력한다 잠근다 연다 닫는다 시작한다 멈춘다 따라간다 필요하다 고친다 정했다 했습니다
    """,
}
_LINKS = {
    "en": (
        *("and the", "because the", "before the", "with a", "for every", "after the", "when the", "while a"),
        *("instead of the", "from the"),
    ),
    "ko": ("그리고", "그래서", "하지만", "먼저", "나중에", "그 다음에", "왜냐하면", "예를 들어", "때문에", "대신에"),
}
_PARTICLES = ("은", "는", "이", "가", "을", "를", "에", "의", "에서", "으로", "와", "도")
_SYLLABLE_LISTS = {
    "en": "ba cor del fen gri hol jan kel lum mar nor pel quin ros sev tal ur ven wil yar zen thor",
    "ko": " ".join("가나다라마바사아자차카타파하고노도로모보소오조초누두루무부수우주기니디리미비시이지"),
}
_THINGS, _DEEDS, _SYLLABLES = (
    {language: listed.split() for language, listed in lists.items()}
    for lists in (_THING_LISTS, _DEED_LISTS, _SYLLABLE_LISTS)
)
_CATEGORIES = ("knowledge", "project", "decision", "preference", "article", "reference", "journal")
_BLOCKS = {"paragraph": 60, "list": 14, "nested": 5, "tasks": 4, "code": 8, "table": 5, "quote": 4}
_MARKS = ("**{}**", "`{}`", "*{}*", "#{}", "use{}State", "[{}](https://example.org/a/b)")
_SUBJECT, _SUBJECTS, _COINED = 24, 401, 800
_RARE, _NUMBERED, _MARKED, _LINKED = 0.06, 0.3, 0.2, 0.05
_MEDIAN_BYTES, _MOST_BYTES = 2_500, 60_000


class Writer:
    """Generates notes by number; all writers with one seed generate the same."""

    def __init__(self, seed: int = 1) -> None:
        self._seed = seed
        rolled = random.Random(seed)
        self._coined = {language: sorted({_name(rolled, language) for _ in range(_COINED)}) for language in _THINGS}
        self._words = {
            language: (*rolled.sample(things, len(things)), *self._coined[language])
            for language, things in _THINGS.items()
        }

    def note(self, number: int) -> tuple[str, str]:
        """Return the path and the text of a note."""
        rolled, language, subject = self._rolled("note", number), _language(number), self.subject(number)
        pen = _Pen(rolled, language, subject, self._words[language], self.title(rolled.randrange(number + 1)))
        title = self.title(number)
        parts = [pen.header(number)] if rolled.random() < 0.8 else []
        parts.append(f"# {title}\n\n{pen.paragraph()}\n\n")
        size, written = min(_MOST_BYTES, _MEDIAN_BYTES * rolled.lognormvariate(0, 1)), 0
        while written < size:
            blocks = "\n\n".join(pen.block() for _ in range(rolled.randint(1, 5)))
            parts.append(f"{'##' if rolled.random() < 0.7 else '###'} {pen.heading()}\n\n{blocks}\n\n")
            written += len(parts[-1].encode())
        return f"{language}/area {number % 97}/{title}.md", "".join(parts)

    def title(self, number: int) -> str:
        """Return the unique title of a note."""
        return f"{self.subject(number)[0]} {_name(self._rolled('title', number), _language(number))} {number}"

    def subject(self, number: int) -> list[str]:
        """Return the words a note is about, the most frequent first."""
        rolled, language = self._rolled("subject", number % _SUBJECTS * 2 + number % 2), _language(number)
        words = rolled.sample(_THINGS[language], _SUBJECT // 3) + rolled.sample(
            self._coined[language], _SUBJECT * 2 // 3
        )
        return rolled.sample(words, len(words))

    def question(self, number: int) -> str:
        """Return a question that the vault can answer."""
        rolled = self._rolled("question", number)
        first, second, third = _zipf(rolled, self.subject(rolled.randrange(100_000) * 2 + number % 2), 3)
        korean = (
            f"{first} {second}은 어떻게 설정하나요?",
            f"{first}에서 {second} {third}",
            f"왜 {first}를 {second}로 바꿨지?",
        )
        change = f"how do we change the {first} of a {second}?"
        english = (change, f"{first} {second} {third}", f"why did the {first} need a {second}?")
        return rolled.choice(korean if number % 2 else english)

    def words(self, number: int) -> list[str]:
        """Return two or three keywords that occur in the vault."""
        rolled = self._rolled("words", number)
        return _zipf(rolled, self.subject(rolled.randrange(100_000) * 2 + number % 2), rolled.randint(2, 3))

    def _rolled(self, what: str, number: int) -> random.Random:
        return random.Random(f"{self._seed} {what} {number}")


@dataclass(frozen=True, slots=True)
class _Pen:
    """What generates one note: a random generator, language, subject, vocabulary, and another note's title to link to."""

    rolled: random.Random
    language: str
    subject: Sequence[str]
    vocabulary: Sequence[str]
    other: str

    def header(self, number: int) -> str:
        day = f"20{self.rolled.randint(18, 26)}-{self.rolled.randint(1, 12):02}-{self.rolled.randint(1, 28):02}"
        return (
            f"---\ntopic: {self.subject[0]} {self.subject[1]}\ncategory: {_CATEGORIES[number % len(_CATEGORIES)]}\n"
            f"keywords: [{', '.join(self.subject[:4])}]\ntags: [{self.subject[2]}]\ncreated: {day}\n---\n"
        )

    def heading(self) -> str:
        return f"{self.rolled.choice(self.subject)} {_name(self.rolled, self.language)}"

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self.rolled.randint(1, 6)))

    def block(self) -> str:
        lines = range(self.rolled.randint(2, 8))
        match self.rolled.choices(list(_BLOCKS), list(_BLOCKS.values()))[0]:
            case "list":
                return "\n".join(f"- {self.sentence()}" for _ in lines)
            case "nested":
                return "\n".join(f"{'  ' * (line % 3)}- {self.sentence()}" for line in lines)
            case "tasks":
                return "\n".join(f"- [{self.rolled.choice(' x')}] {self.sentence()}" for _ in lines)
            case "code":
                code = "\n".join(f"    {'_'.join(self.nouns(2))} = {self.nouns(1)[0]}({line})" for line in lines)
                return f"```python\ndef {self.nouns(1)[0]}():\n{code}\n```"
            case "table":
                rows = [self.nouns(3), ["---"] * 3, *(self.nouns(3) for _ in lines)]
                return "\n".join(f"| {' | '.join(row)} |" for row in rows)
            case "quote":
                return "\n".join(f"> {self.sentence()}" for _ in lines)
        return self.paragraph()

    def sentence(self) -> str:
        rolled, nouns = self.rolled, self.nouns(4)
        if rolled.random() < 4 * _RARE:
            nouns[rolled.randrange(4)] = _name(rolled, self.language)
        if rolled.random() < _MARKED:
            at = rolled.randrange(4)
            nouns[at] = rolled.choice(_MARKS).format(nouns[at])
        if rolled.random() < _LINKED:
            nouns[3] = f"[[{self.other}]]"
        deed, link = rolled.choice(_DEEDS[self.language]), rolled.choice(_LINKS[self.language])
        number = f" {rolled.randint(1, 5_000)}" * (rolled.random() < _NUMBERED)
        if self.language == "en":
            return f"The {nouns[0]} {deed} a {nouns[1]} {link} {nouns[2]} of {nouns[3]}{number}."
        first, second, third = (noun + rolled.choice(_PARTICLES) for noun in nouns[:3])
        return f"{first} {second} {link} {nouns[3]}{number} {third} {deed}."

    def nouns(self, count: int) -> list[str]:
        return _zipf(self.rolled, self.subject if self.rolled.random() < 0.7 else self.vocabulary, count)


def write(vault: Path, numbers: Iterable[int], writer: Writer) -> int:
    """Write notes into `vault`; return their bytes."""
    size = 0
    for number in numbers:
        path, text = writer.note(number)
        file = vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        size += file.write_bytes(text.encode())
    return size


def _language(number: int) -> str:
    return ("en", "ko")[number % 2]


def _zipf(rolled: random.Random, words: Sequence[str], count: int) -> list[str]:
    sums = _SUMS[: len(words)]
    return [words[bisect(sums, rolled.random() * sums[-1])] for _ in range(count)]


def _name(rolled: random.Random, language: str) -> str:
    """Return a name that few notes share."""
    return "".join(rolled.choices(_SYLLABLES[language], k=rolled.randint(2, 4)))


_SUMS = list(accumulate(1 / rank for rank in range(1, 1_500)))
