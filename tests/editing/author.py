"""Notes that are written and edited by chance, for merges."""

import random
import re
from itertools import count


def header(*lines: str) -> str:
    return "---\n" + "".join(f"{line}\n" for line in lines) + "---\n\nText.\n"


class Author:
    """Writes and edits notes by chance. Each sentence, item, heading and value has a word of its own."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.words = count()

    def word(self) -> str:
        return f"w{next(self.words)}x"

    def block(self) -> str:
        say, kind = self.word, self.chance.randrange(6)
        if kind == 0:
            return f"```\n{say()}\n\n{say()}\n```"
        if kind == 1:
            return f"| {say()} | b |\n| --- | --- |\n| {say()} | d |\n| {say()} | e |"
        if kind == 2:
            return f"> {say()} quoted\n> {say()}"
        if kind == 3:
            return "\n".join(f"- item {say()}" for _ in range(self.chance.randint(1, 4)))
        return " ".join(f"Here is {say()} said." for _ in range(self.chance.randint(1, 4)))

    def section(self) -> list[str]:
        level = self.chance.choice(["##", "##", "##", "###"])
        return [f"{level} Head {self.word()}", *(self.block() for _ in range(self.chance.randint(0, 3)))]

    def note(self) -> tuple[dict[str, str], list[list[str]]]:
        keys = {
            name: f"[{self.word()}, {self.word()}]" if name == "tags" else self.word() for name in ("tags", "a", "b")
        }
        sections = [["# Title", self.block()], *(self.section() for _ in range(self.chance.randint(0, 5)))]
        return keys, sections

    def edit(self, note: tuple[dict[str, str], list[list[str]]]) -> tuple[dict[str, str], list[list[str]]]:
        keys, sections = dict(note[0]), [list(section) for section in note[1]]
        for _ in range(self.chance.randint(1, 4)):
            section = self.chance.choice(sections)
            at = self.chance.randrange(len(section))
            kind = self.chance.randrange(9)
            if kind == 0:
                section[at] = re.sub(r"w\d+x", lambda _: self.word(), section[at], count=1)
            elif kind == 1:
                section.insert(at + 1, self.block())
            elif kind == 2 and at:
                del section[at]
            elif kind == 3:
                sections.insert(self.chance.randrange(1, len(sections) + 1), self.section())
            elif kind == 4 and section is not sections[0]:
                sections.remove(section)
            elif kind == 5 and section is not sections[0]:
                sections.remove(section)
                sections.insert(self.chance.randrange(1, len(sections) + 1), section)
            elif kind == 6 and section[-1].startswith("- "):
                section[-1] += f"\n- item {self.word()}"
            elif kind == 7:
                keys[self.chance.choice(["a", "b", "c"])] = self.word()
            else:
                keys["tags"] = keys["tags"][:-1] + f", {self.word()}]"
        return keys, sections


def written(note: tuple[dict[str, str], list[list[str]]]) -> str:
    keys, sections = note
    return header(*(f"{key}: {value}" for key, value in keys.items())).removesuffix("Text.\n") + "".join(
        f"{block}\n\n" for section in sections for block in section
    )
