"""Keys of the frontmatter that date a note, in ten languages and as programs write them."""

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spellbook.library.book import Spellbook
from spellbook.library.doctor import Remark, checks
from spellbook.notes.dates import CREATED, UPDATED, find, is_of, unread
from tests.helpers import Write

DAY = "2024-01-05"

MADE = {
    "en": "create date, create time, created at, created on, creation datetime, date of creation, time created, date added",
    "ko": "작성일, 작성 일시, 등록일, 만든 날짜, 만든 시각, 생성일자, 최초 작성일, 처음 만든 날, 날짜, 일자",
    "zh": "创建时间, 建立時間, 创建日期, 创建于, 記錄日期, 日期",
    "ja": "作成日, 作成日時, 登録日, 作成した日, 投稿日, 日付",
    "de": "Erstellt, Erstellt am, Erstellungsdatum, Anlagedatum, Datum der Erstellung, Datum, Hinzugefügt am",
    "fr": "créé, Créée le, Date de création, date création, Date d'ajout, Date de rédaction",
    "es": "fecha, Fecha de creación, creado, Creada el, fecha y hora, fecha de alta, día de creación",
    "pt": "Criado em, Data de criação, criada, data da criação, Data de cadastro, data",
    "it": "Creato il, Data di creazione, creazione, data creazione, Data di inserimento",
    "ru": "дата, Дата создания, создано, Создан, Время создания, Дата добавления",
    # As programs write them, by their documentation or source.
    "Linter, Joplin, Trilium, Roam, Zotero": "date created, user_created_time, utcDateCreated, create-time, dateAdded",
    "Notion": "Created time, 생성 일시, 创建时间, 作成日時, Date de création, Fecha de creación",
    "Day One, Anytype, Logseq, Dataview": "creationDate, Creation date, created-at, ctime",
    "Hugo, Quartz, Ghost, WordPress": "publishDate, pubdate, published, published_at, post_date",
}
CHANGED = {
    "en": "last update, date updated, updated_at, lastUpdated, last_modified_at, lastmod, date modified, last edited time",
    "ko": "수정일, 최종 수정일, 마지막 편집 일시, 업데이트 날짜, 고친 날짜, 수정됨",
    "zh": "修改时间, 更新于, 最后编辑时间, 最後更新時間, 更新日期",
    "ja": "更新日, 最終更新日時, 変更日, 編集した日, 最終更新日",
    "de": "Geändert, Zuletzt geändert am, Änderungsdatum, Letzte Änderung, Aktualisiert, Bearbeitungsdatum",
    "fr": "modifié, Modifiée le, Date de modification, Dernière mise à jour, Dernière modification",
    "es": "Última modificación, modificado, Fecha de actualización, actualizado el, Última edición",
    "pt": "Modificado em, Última atualização, Data de modificação, atualizado, data da última alteração",
    "it": "Ultima modifica, Data di modifica, modificato il, Ultimo aggiornamento, aggiornato",
    "ru": "Обновлено, Дата изменения, изменён, Последнее изменение, Дата последнего обновления",
    "Roam, Bear, Day One, Dataview": "edit-time, modificationDate, modifiedDate, mtime, dateModified, user_updated_time",
}


def every(table: dict[str, str]) -> list[str]:
    return [key for keys in table.values() for key in keys.split(", ")]


def spelled(key: str, joint: str, case: int) -> str:
    """`key` with its words joined by `joint`, in small letters, capitals, as a title, or camelCase."""
    words = key.split(" ")
    camel = "".join([words[0].lower(), *(word.capitalize() for word in words[1:])])
    return [joint.join(words).lower(), joint.join(words).upper(), joint.join(words).title(), camel, joint.join(words)][
        case
    ]


joints, cases = st.sampled_from([" ", "", "-", "_", " - ", "."]), st.integers(0, 4)


@given(st.sampled_from(every(MADE)), joints, cases, st.sampled_from(["NFC", "NFD"]), st.sampled_from(["", "📅 "]))
def test_a_key_of_creation_dates_a_note(
    key: str, joint: str, case: int, form: Literal["NFC", "NFD"], before: str
) -> None:
    """A key of ten languages or of a program dates a note in every casing and joining, composed or not, behind an emoji."""
    key = before + unicodedata.normalize(form, spelled(key, joint, case))
    assert find({"title": "x", key: DAY, "updated": "2025-01-01"}, CREATED) == (key, DAY)
    assert find({key: DAY}, UPDATED) == ("", "")


@given(st.sampled_from(every(CHANGED)), joints, cases)
def test_a_key_of_changes_says_when_a_note_was_changed(key: str, joint: str, case: int) -> None:
    """So does a key that says when a note was changed; it never dates the note's beginning."""
    key = spelled(key, joint, case)
    assert find({key: DAY}, UPDATED) == (key, DAY)
    assert find({key: DAY}, CREATED) == ("", "")


OTHERS = (
    *(
        "birthday",
        "due",
        "deadline",
        "start",
        "end",
        "review",
        "date of birth",
        "생일",
        "마감일",
        "회의 날짜",
        "발표일시장소",
    ),
    *(
        "Geburtsdatum",
        "Startdatum",
        "naissance",
        "fecha límite",
        "data di nascita",
        "день рождения",
        "生年月日",
        "截止日期",
    ),
    *(
        "created by",
        "author",
        "작성자",
        "만든 사람",
        "创建者",
        "作成者",
        "Erstellt von",
        "créé par",
        "creado por",
        "updated by",
    ),
    *(
        "update",
        "datebook",
        "candidate",
        "createdness",
        "mydate",
        "Datumsformat",
        "creator",
        "modifier",
        "edition",
        "edición",
    ),
)


@given(st.sampled_from(OTHERS), joints, cases)
def test_a_key_of_another_thing_dates_nothing(key: str, joint: str, case: int) -> None:
    """A day of birth, a deadline, a person who made a note, and words that only begin alike date no note."""
    assert not is_of(spelled(key, joint, case), (*CREATED, *UPDATED))


@pytest.mark.parametrize(
    ("meta", "created", "faults"),
    [
        ({"date": {"created": DAY, "updated": "2025-02-03"}}, DAY, []),  # Material for MkDocs
        ({"published": True, "date": DAY}, DAY, []),  # Jekyll
        ({"lastUpdated": False, "last_update": {"author": "x"}}, "", []),  # VitePress, Docusaurus
        ({"data": [1, 2], "timestamp": "00:10", "edited": "by Ann"}, "", []),
        ({"published": "2020-01-01", "created": DAY}, DAY, []),
        ({"Erstellt": "bald", "만든 날짜": "어제"}, "", ["Erstellt", "만든 날짜"]),
    ],
)
def test_values_that_are_no_date(meta: dict[str, object], created: str, faults: list[str]) -> None:
    """Keys that programs use for other values too are no fault; a value under a key of a date that is none is one."""
    assert (find(meta, CREATED)[1], unread(meta)) == (created, faults)


def test_doctor_names_keys_that_sound_like_a_date(book: Spellbook, write_note: Write) -> None:
    """
    A key that holds a date, sounds like the date of its note and is not read is named once, with the number of notes that
    have no other date. Nothing else is, and no repair is asked for.
    """
    for name, key in (("a", "Opprettet"), ("b", "opprettet"), ("c", "Utworzono"), ("d", "oluşturma tarihi")):
        write_note(f"{name}.md", f"---\n{key}: {DAY}\n---\ntext of {name}")
    others = {"birthday": DAY, "due date": DAY, "metadata": "a text", "등록일": DAY, "최종 수정일": DAY}
    write_note("e.md", "---\n" + "".join(f"{key}: {value}\n" for key, value in others.items()) + "---\ntext of e")
    write_note("2024-01-05.md", f"---\nopprettet: {DAY}\n---\ntext of a day")
    book.reindex()
    named = dict(checks(book.index, ""))["dates of notes"]
    assert all(isinstance(each, Remark) for each in named)
    assert [each.split(" is not read")[0] for each in named] == [
        *("2 notes: opprettet", "1 note: oluşturma tarihi", "1 note: utworzono")
    ]
    assert book.show("e")[0].created == DAY
