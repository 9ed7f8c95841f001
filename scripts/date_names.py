"""
Write spellbook/notes/date_names.toml: the names of months and weekdays in all languages.

    pip install babel && npm pack moment && tar xzf moment-*.tgz
    python scripts/date_names.py package

The names are those of the Unicode CLDR, as `babel` has it, and those of moment.js, by which Obsidian names daily notes;
`node` reads the latter from the folder of its package. Spellbook needs none of these to run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import babel
from babel.core import get_cldr_version
from babel.localedata import locale_identifiers

from spellbook.notes.date_names import key

FILE = Path(__file__).resolve().parent.parent / "spellbook" / "notes" / "date_names.toml"

FIRST = (
    *("en", "ko", "zh", "ja", "de", "fr", "es", "pt", "it", "ru", "nl", "pl", "cs", "tr", "uk", "id", "sv", "da", "nb"),
    *(
        "ro",
        "hu",
        "el",
        "fi",
        "vi",
        "th",
        "ar",
        "fa",
        "hi",
        "bn",
        "ur",
        "ta",
        "te",
        "ms",
        "sw",
        "fil",
        "az",
        "uz",
        "kk",
    ),
)
"""Languages by whose first one a name means a month or a day, where other languages have it for another."""

INVENTED = ("x", "tlh", "tzl")
"""Languages of moment.js that are a joke or a test."""

_MOMENT = """
const folder = process.argv[1], moment = require(folder + "/moment.js"), names = [];
for (const file of ["en.js", ...require("fs").readdirSync(folder + "/locale")]) {
  const language = file.slice(0, -3);
  if (language !== "en") require(folder + "/locale/" + file);
  moment.locale(language);
  const add = (kind, number, date, form) => names.push([kind, language, number, moment(date).format(form)]);
  for (let n = 0; n < 12; n++)
    for (const form of ["MMMM", "MMM", "D MMMM YYYY", "D MMM YYYY"]) add("months", n + 1, [2025, n, 5], form);
  for (let n = 0; n < 7; n++) for (const form of ["dddd", "ddd", "dd"]) add("days", n + 1, [2025, 0, 6 + n], form);
}
console.log(JSON.stringify(names));
"""

_HEAD = """\
# Names of months and of days of the week, as `key` of date_names.py has them: in small letters, without blanks, full
# stops, hyphens and apostrophes. Written by scripts/date_names.py; do not edit.
#
# From the Unicode CLDR {cldr} by babel {babel}: all languages; wide, abbreviated and short; format (genitive) and
# stand-alone. (C) 1991-2025 Unicode, Inc.; Unicode License v3, SPDX Unicode-3.0, https://www.unicode.org/license.txt
# Names that only moment.js {moment} has, by which Obsidian names daily notes: (C) JS Foundation and contributors, MIT.
"""

_AROUND = re.compile(r"\A\d+ (?=.* \d{4}\Z)| \d{4}\Z")
"""The day and the year of a date, in which some languages spell a month in another way than alone."""

Names = dict[str, dict[int, set[str]]]
"""For each name the months or days that it may mean, each with the languages in which it does."""


def of_cldr() -> list[tuple[str, str, int, str]]:
    """Return kind, language, number and name of each month (1 to 12) and day (1 is Monday) of the CLDR."""
    found = []
    for identifier in locale_identifiers():
        locale = babel.Locale.parse(identifier)
        for kind, source, first in (("months", locale.months, 0), ("days", locale.days, 1)):
            widths = [source[context][width] for context in source for width in source[context] if width != "narrow"]
            found += [(kind, locale.language, n + first, name) for names in widths for n, name in names.items()]
    return found


def of_moment(folder: str) -> list[tuple[str, str, int, str]]:
    """Return the names of moment.js in the same form."""
    command = ["node", "-e", _MOMENT, str(Path(folder).resolve())]
    listed: list[Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = [(kind, language.split("-")[0], number, _AROUND.sub("", name)) for kind, language, number, name in listed]
    return [each for each in found if each[1] not in INVENTED]


def meanings(named: dict[int, set[str]]) -> list[int]:
    """Return the numbers that a name with several may mean: before the others that of the languages FIRST, or 0."""
    known = (number for language in FIRST for number, languages in sorted(named.items()) if language in languages)
    likely = next(known, 0)
    return [likely, *sorted(named.keys() - {likely})]


def text(names: dict[str, Names], versions: dict[str, str]) -> str:
    """Return the text of the file."""
    parts = [_HEAD.format(**versions)]
    for kind, known in names.items():
        parts.append(f"\n[{kind}]\n")
        for number in sorted({number for named in known.values() for number in named}):
            listed = sorted(name for name, named in known.items() if [*named] == [number])
            parts.append(f"{number} = '''\n" + "\n".join(listed) + "\n'''\n")
    parts.append("\n# Names with several meanings. The first is taken where no day of the week decides; 0 is none.\n")
    for kind, known in names.items():
        parts.append(f"[several.{kind}]\n")
        parts += [f'"{name}" = {meanings(named)}\n' for name, named in sorted(known.items()) if len(named) > 1]
    return "".join(parts)


def main(folder: str) -> None:
    """Write the file, with the names of moment.js in `folder`."""
    names: dict[str, Names] = {kind: defaultdict(lambda: defaultdict(set)) for kind in ("months", "days")}
    for kind, language, number, name in (*of_cldr(), *of_moment(folder)):
        plain = key(name)
        if plain and not plain.isdecimal() and not plain.removeprefix("m").isdecimal():
            names[kind][plain][number].add(language)
    moment = json.loads(Path(folder, "package.json").read_text("utf-8"))["version"]
    versions = {"cldr": get_cldr_version(), "babel": babel.__version__, "moment": moment}
    FILE.write_text(text(names, versions), "utf-8", newline="")


if __name__ == "__main__":
    main(sys.argv[1])
