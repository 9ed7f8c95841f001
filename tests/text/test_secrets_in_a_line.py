"""A secret is found anywhere in the line of its label: the more random it is, the freer the words between may be."""

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spellbook.text import credential_values, credentials

SENTENCES = Path(__file__).parent / "secrets"


@pytest.mark.parametrize(
    ("file", "least", "most"), [("told-in-a-line.txt", 215, 226), ("harmless-in-a-line.txt", 0, 2)]
)
def test_sentences_with_words_between(file: str, least: int, most: int) -> None:
    """
    At least 95 of 100 sentences are found whose label is an object, or far from its secret; of 245 harmless ones 2 count.

    The rules were chosen on all of these lines. Before they were chosen on the last 66, 59 of those were found.
    """
    sentences = (SENTENCES / file).read_text("utf-8").splitlines()
    found = [sentence for sentence in sentences if credentials.find(sentence)]
    assert least <= len(found) <= most, set(sentences) ^ set(found)
    assert not any(secret.value in credentials.masked(each) for each in found for secret in credentials.find(each))


KEYS = (
    "Plug in the access token that Dana sent, {}, and restart",
    "{} belongs to the staging box, where it serves as API key",
    "배포할 때 쓰는 API 키를 {}로 새로 발급받았다",
    "아까 만든 액세스 토큰은 {} 이걸로 교체",
    "検証用のアクセストークンを使ってください：{}",
    "新しいシークレットキー{}を登録した",
    "把访问令牌换成{}再试一次",
    "脚本里要填的密钥,我发你:{}",
    "Den Zugriffstoken habe ich erneuert, er heißt nun {}",
    "Trag für den Dienst den API-Schlüssel {} ein",
    "Le jeton d'accès est renouvelé, mets {} dans la config",
    "La clave secreta que nos dieron ayer es {}",
    "Для запросов используй API-ключ {}, старый отозвали",
)
PINS = (
    "I changed the PIN of my card, the blue one, to {}",
    "The alarm PIN, after the visit, is {}",
    "현관 비번을 어제 {}로 바꿨어",
    "金庫の暗証番号を先週{}に変えました",
    "银行卡的取款密码上周改成了{},记一下",
    "Merk dir, dass die PIN meiner Karte jetzt {} ist",
    "Mon code PIN de carte SIM, c'est le {}",
    "Hemos cambiado el PIN de la alarma y ahora es el {}",
    "Пин-код от сейфа вчера сменили на {}",
    "Para abrir el garaje, código {}",
    "Der Code am Gartentor ist seit Montag {}",
)
PHRASES = (
    "The vault passphrase, as agreed, is “{}”",
    "암호화 폴더 암호문구는 '{}'이야",
    "ディスクのパスフレーズは『{}』にしました",
    "硬盘的口令短语是「{}」",
    "Als Passphrase nehme ich „{}“",
    "La phrase secrète du coffre, c'est désormais « {} »",
    "Mi frase de paso es «{}»",
    "Копия зашифрована, парольная фраза к ней «{}»",
)
GENERATED = st.from_regex(r"([A-Za-z]{1,3}[0-9]{1,2}){8,12}", fullmatch=True) | st.from_regex(
    r"[a-z][0-9][a-z]{2}(-[a-z][0-9][a-z]{2}){2,5}", fullmatch=True
)
NUMBERS = st.integers(3000, 18_999_999).map(str).filter(lambda number: number[:2] not in {"19", "20"})
WORDS = st.lists(
    st.sampled_from(["трамвай", "рябина", "kettle", "violin", "湖水", "铅笔", "호수", "연필", "girafe"]),
    min_size=4,
    max_size=6,
)
NAMES: tuple[str, ...] = (
    "gpt-4o-2024-08-06",
    "k8s-cluster-01-eu-west-2",
    "Llama-2-70b-hf",
    "v2.14.3",
    "2026-11-28",
    "AES-256-GCM",
)
NAMES += ("config/keys-2024.yaml", "localhost:8443")
NO_PINS = ("4096 bit", "5200 users", "3회", "2024년", "4096文字", "5000次", "4471 Zeilen", "12 840")


@given(st.sampled_from(KEYS), GENERATED)
def test_a_random_value_is_found_anywhere(frame: str, value: str) -> None:
    """Letters and digits in turns, or groups of them, are the secret of a label of keys in their line."""
    assume(not credential_values.is_example(value) and len(set(value)) > credential_values.LEAST_DIFFERENT)
    text = frame.format(value)
    assert [secret.value for secret in credentials.find(text)] == [value]
    assert value not in credentials.masked(text)


@given(st.sampled_from(PINS), NUMBERS)
def test_a_number_is_found_by_its_verb(frame: str, number: str) -> None:
    """A number is the secret of a label of codes if a verb, a particle or a sign stands beside it and the clause ends."""
    assert number not in credentials.masked(frame.format(number))


@given(st.sampled_from(PHRASES), WORDS)
def test_a_passphrase_of_any_script_is_found(frame: str, words: list[str]) -> None:
    """Words of any script in quotes of any language are the secret of a label of passphrases."""
    assume(len(set(words)) > 2)
    assert " ".join(words) not in credentials.masked(frame.format(" ".join(words)))


@given(st.sampled_from(KEYS), st.sampled_from(NAMES))
def test_a_name_is_no_key(frame: str, name: str) -> None:
    """Names of models and machines, versions, dates and paths are no keys where a key would stand."""
    assert credentials.find(frame.format(name)) == []


@given(st.sampled_from(PINS), st.sampled_from(NO_PINS))
def test_a_count_is_no_code(frame: str, count: str) -> None:
    """A number with a unit is no code."""
    assert credentials.find(frame.format(count)) == []


@pytest.mark.parametrize("word", ["commit", "request", "tracking number", "serial number", "커밋", "提交", "коммит"])
def test_a_number_of_another_thing_is_no_key(word: str) -> None:
    """A hash of a commit, and an id of a request or a parcel, is no key although a key is named in the line."""
    for value in ("3f9c1e7ab24d508861c0f2e9d7b6a5c4e3f20190", "1Z999AA10123456784", "C02XK1ZJGH5R7Q8T"):
        assert credentials.find(f"The API key was removed, {word} {value}") == []
        assert credentials.find(f"{word} {value} removes the API key") == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "The recovery code is say0 j7qw 6xom dao0 fmlj hqog 5s7a 35yl for the vault.",
            "The recovery code is … for the vault.",
        ),
        ("recovery codes: 1k4x-ab2d 9zzk-qq31 kk2s-mm4t", "recovery codes: …"),
        ("복구 코드는 a1b2 cdef ghij klmn 5opq 이다", "복구 코드는 … 이다"),
    ],
)
def test_groups_of_letters_alone_belong_to_a_code(text: str, left: str) -> None:
    """A mask takes all groups of a code, also those without a digit, and all codes of a list."""
    assert credentials.masked(text) == left
