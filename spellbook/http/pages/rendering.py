"""
Text of notes as HTML that runs nothing, and loads nothing but pictures of the vault: Markdown without HTML, cleaned.

Other pictures are only named: one from another host would tell a stranger who reads. Links lead to notes of the vault,
or to other places without a referrer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from markupsafe import Markup, escape

from spellbook.index.catalog.rows import StoredChunk
from spellbook.notes import splitter
from spellbook.notes.links import OTHER_PICTURES, PICTURES, suffix
from spellbook.search.packing import Weigh
from spellbook.system.lazy import markdown_it, regex
from spellbook.text import korean, terms
from spellbook.text.quoting import plain
from spellbook.text.terms import STOP_WORDS
from spellbook.text.unicode import without_ending

if TYPE_CHECKING:
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MOST_LETTERS = 100_000
"""Letters of one section that are rendered; the rest is shown as plain text."""

_AROUND = 420
"""Letters of an excerpt."""

_ENDS = ".!?。"
"""Signs that end a sentence."""

_GIST = 220
"""Letters of a note in a list."""

_TAGS = {
    "button",
    *("a", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h2", "h3", "h4", "h5", "h6", "hr"),
    *("img", "li", "mark", "ol", "p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_CLASSES = {
    "blockquote": {"callout"},
    "p": {"callout-title"},
    "span": {"picture", "why", "missing", "box", "done"},
    "button": {"box", "done"},
    "a": {"wiki", "away"},
}
_CALLOUT = regex(r"^\[!([\w-]{1,30})\][+-]?[ \t]*(.*)", re.I)
_TASK = regex(r"^\[([ xX])\][ \t]+")
_WIKI = regex(r"!?\[\[([^\[\]\n]{1,1000})\]\]")
_MARKED_LINK = regex(
    r"!?\[([^\[\]\n]{0,300})\]\([^()\s]{0,500}\)|!?\[\[([^\[\]|\n]{1,300})(?:\|([^\[\]\n]{1,300}))?\]\]"
)
_MARKS = regex(
    # Where a block begins: a heading, a quote, an item of a list.
    r"(?m)^[ \t]*(?:#{1,6}|>|[-*+](?= )(?: \[[ xX]\])?|\d+\.(?= ))[ \t]*(?:\[![\w-]+\][+-]?)?"
    r"|^[ \t|:-]*-{3}[ \t|:-]*$|^`{3}.*$|\|"  # rules, fences, and the lines of tables
    r"|[*`]{1,3}|\b_{1,2}\B|\B_{1,2}\b|<!--[^<>\n]{0,200}-->"
)
_AWAY = regex(r"(?i)(?:https?:)?//|mailto:")
_HANGUL = regex("[가-힣]")

_MOST_EXCERPTED = 20_000
_MOST_WORDS = 64
"""Words of a question that are marked."""

_MOST_ENDING = 12
"""Letters of an ending that a marked word may have."""

_MOST_INFLECTION = 2
"""The same of a word that only stood for another: no `redistribution` for `redis`."""

Reach = Callable[[str], str | None]
"""Returns the address of the page that a link's target leads to, None if it leads to no note."""

Show = Callable[[str], tuple[str, str]]
"""Returns the address of the picture that a target names, or "" and why it is not shown."""

IMAGES = "/image/"
"""The beginning of the address of every picture."""

_MOST_NAMED = 300
"""Letters of the name or address of a picture that is not shown."""

_WIDTH = regex(r"(?:^|\|)\s*(\d{1,4})(?:x\d{1,4})?\s*$")


def rendered(text: str, reach: Reach, show: Show, title: str, form: str) -> Markup:
    """
    Return a section's Markdown as HTML; `reach` finds linked notes, and `show` pictures.

    A first heading that repeats the `title` is left out. With the id of a `form`, each box of a task is a button that
    sends it with its line, `at`.
    """
    import nh3

    first, _, after = text.lstrip().partition("\n")
    body = after if title and first.startswith("# ") and first[2:].strip() == title else text
    above = text[: len(text) - len(body)].count("\n")
    body, rest = body[:MOST_LETTERS], body[MOST_LETTERS:]
    made = _parser().render(body, {"reach": reach, "show": show, "form": form, "above": above})
    attributes = {"a": {"href", "title"}, "ol": {"start"}, "th": {"align"}, "td": {"align"}}
    attributes["img"] = {"src", "alt", "width", "loading"}
    attributes["button"] = {"name", "value", "form", "aria-pressed", "aria-label"}
    clean = nh3.clean(
        made,
        tags=_TAGS,
        attributes=attributes,
        # No picture but those of the vault.
        attribute_filter=lambda tag, name, value: None if name == "src" and not value.startswith(IMAGES) else value,
        allowed_classes=_CLASSES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(plain(clean)) + (Markup("<pre>{}</pre>").format(rest) if rest else "")


def targets(links: Sequence[Mapping[str, Any]], address: Callable[[str], str]) -> Reach:
    """Return how links are followed, by the links of a note as the catalog has them."""
    known = {_plain(each["target"]): address(each["id"]) for each in links if each["id"]}
    return lambda target: known.get(_plain(target))


def pictures(known: Mapping[str, str], address: Callable[[str], str], phrase: Callable[[str], str]) -> Show:
    """Return how pictures are shown; `known` has paths of a note's pictures by target, `phrase` translates reasons."""
    addresses = {_plain(target): address(path) for target, path in known.items() if path}

    def show(target: str) -> tuple[str, str]:
        if found := addresses.get(_plain(target)):
            return found, ""
        if _AWAY.match(target):
            return "", phrase("This picture is on another computer; pictures are shown from the vault only.")
        if suffix(_plain(target)) in OTHER_PICTURES:
            return "", phrase("Pictures of this kind are not shown; PNG, JPEG, GIF and WebP are.")
        return "", phrase("There is no such picture in the vault.")

    return show


def _plain(target: str) -> str:
    return without_ending(unquote(target).strip().partition("#")[0]).removeprefix("./").casefold()


@cache
def _parser() -> markdown_it.MarkdownIt:
    made = markdown_it.MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
    made.inline.ruler.before("link", "wikilink", _wikilink)
    made.core.ruler.push("callouts", _callouts)
    made.add_render_rule(
        "image", lambda _, tokens, at, __, env: _picture(tokens[at].attrs["src"], tokens[at].content, env["show"])
    )
    made.add_render_rule("link_open", _link)
    made.add_render_rule("heading_open", _heading)
    made.add_render_rule("heading_close", _heading)
    made.add_render_rule("wikilink", _wiki)
    made.add_render_rule("box", _box)
    made.add_render_rule("callout_break", lambda *_: "</p>\n<p>")
    return made


def _wikilink(state: StateInline, silent: bool) -> bool:
    """Read [[target|shown]] of Obsidian."""
    match = _WIKI.match(state.src, state.pos, state.posMax)
    if not match:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.content, token.markup = match[1], "!" if match[0].startswith("!") else ""
    state.pos = match.end()
    return True


def _callouts(state: Any) -> None:
    """Find Obsidian's callouts in quotes, and the boxes of tasks in lists."""
    tokens: list[Token] = state.tokens
    for number, token in enumerate(tokens):
        if token.type != "inline" or not token.children or token.children[0].type != "text":
            continue
        first, before = token.children[0], tokens[number - 2].type if number > 1 else ""
        if before == "blockquote_open" and (match := _CALLOUT.match(first.content)):
            tokens[number - 2].attrSet("class", "callout")
            tokens[number - 1].attrSet("class", "callout-title")
            first.content = match[2] or match[1].capitalize()
            for child in token.children:
                if child.type in {"softbreak", "hardbreak"}:  # what follows is the callout's text, not its title
                    child.type = "callout_break"
                    break
        elif before == "list_item_open" and (task := _TASK.match(first.content)):
            first.content = first.content[task.end() :]
            meta = {"line": token.map[0] if token.map else 0, "task": token.content[task.end() :]}
            token.children.insert(0, markdown_it.token.Token("box", "", 0, content=task[1], meta=meta))


def _box(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    is_done = tokens[at].content in "xX"
    attributes = f'class="box{" done" if is_done else ""}"'
    if not env["form"]:
        return f"<span {attributes}>{'☑' if is_done else '☐'}</span> "
    at, task = env["above"] + tokens[at].meta["line"], _plain_text(tokens[at].meta["task"], "")[:_MOST_NAMED]
    sent = Markup('name="at" value="{}" form="{}" aria-label="{}"').format(at, env["form"], task)
    return f'<button {attributes} {sent} aria-pressed="{str(is_done).lower()}">{"☑" if is_done else "☐"}</button> '


def _picture(target: str, label: str, show: Show) -> str:
    """Return a picture, or its name and why it is not shown; a number behind `|` in its label is its width."""
    width = _WIDTH.search(label)
    label = label[: width.start()] if width else label
    address, why = show(target)
    named = unquote(target)[:_MOST_NAMED]
    if address:
        sized = f' width="{width[1]}"' if width else ""
        alt = escape(label.strip() or named.rpartition("/")[2].rpartition(".")[0])
        return f'<img src="{escape(address)}" alt="{alt}"{sized} loading="lazy">'
    label = label.strip()[:_MOST_NAMED]
    name = f"{escape(label)} · {escape(named)}" if label and label != named else escape(named)
    return f'<span class="picture">{name}<span class="why">{escape(why)}</span></span>'


def _heading(made: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    if tokens[at].tag == "h1":  # the page has its own
        tokens[at].tag = "h2"
    return made.renderToken(tokens, at, options, env)


def _link(made: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    href = str(token.attrs.get("href", ""))
    if _AWAY.match(href) and not href.startswith("//"):
        token.attrSet("class", "away")
    else:
        address = env["reach"](href)
        token.attrs = {"href": address, "class": "wiki"} if address else {}
    return made.renderToken(tokens, at, options, env)


def _wiki(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    target, bar, shown = tokens[at].content.partition("|")
    if tokens[at].markup and suffix(target.partition("#")[0].strip()) in PICTURES | OTHER_PICTURES:
        return _picture(target.strip(), shown, env["show"])
    label = escape((shown if bar and shown.strip() else target).strip())
    href = env["reach"](target)
    return f'<a class="wiki" href="{escape(href)}">{label}</a>' if href else f'<span class="missing">{label}</span>'


def found_words(query: str, others: Iterable[str]) -> re.Pattern[str] | None:
    """
    Return a pattern of a question's words as a text may have them, None if it has none.

    Korean words match with any particle, others of four letters or more with any ending. `others` are words that stood
    for them, such as synonyms; anything may stand between several words.
    """
    words = terms.runs(query)[:_MOST_WORDS]
    telling = [word for word in words if word.lower() not in STOP_WORDS] or words
    wanted = {korean.stem(word) if _HANGUL.search(word) else word for word in telling}
    phrases = {tuple(terms.runs(other)): _MOST_INFLECTION for other in others}
    phrases |= {(word,): _MOST_ENDING for word in wanted}
    longest = sorted(filter(None, phrases), key=lambda words: -sum(map(len, words)))
    parts = [_forms(words, phrases[words]) for words in longest if len("".join(words)) > 1 or not words[0].isascii()]
    return re.compile(rf"(?<![^\W_가-힣])(?:{'|'.join(parts)})", re.I) if parts else None


def _forms(words: Sequence[str], most: int) -> str:
    """Return a pattern of words in a row, the last one with an ending of at most so many letters."""
    last = words[-1]
    if _HANGUL.search(last):
        ending = rf"[^\W_가-힣]{{0,{_MOST_ENDING}}}"
    else:
        ending = rf"[^\W_가-힣]{{0,{most if len(last) > 3 else 0}}}(?![^\W_가-힣])"
    return r"[\W_]{0,3}".join(map(re.escape, words)) + ending


def marked(text: str, words: re.Pattern[str] | None) -> Markup:
    """Return a text with the words of a question marked."""
    if words is None:
        return escape(text)
    made, at = Markup(), 0
    for match in words.finditer(text):
        made += escape(text[at : match.start()]) + Markup("<mark>{}</mark>").format(match[0])
        at = match.end()
    return made + escape(text[at:])


def excerpt(text: str, words: re.Pattern[str] | None, weigh: Weigh, heading: str = "", title: str = "") -> Markup:
    """
    Return the text around the sentence that answers best, by `weigh` or most `words`, in bold.

    It leaves out `heading`, and a sentence at its beginning that repeats `title`; "" if nothing else is there.
    """
    body = _plain_text(text[:_MOST_EXCERPTED], heading)
    beyond = after_title(title, body)
    body = body if beyond is None else beyond

    def worth(span: tuple[int, int]) -> tuple[int, float]:
        sentence = body[slice(*span)]
        return len({match[0].lower() for match in words.finditer(sentence)}) if words else 0, weigh([sentence])[0]

    best = max(splitter.sentences(body), key=worth, default=(0, 0))
    first, last = best if any(worth(best)) else (0, 0)
    start = body.find(" ", first - _AROUND // 3) + 1 if first > _AROUND // 3 and len(body) > _AROUND else 0
    end = start + len(_cut(body[start:], _AROUND))
    lead, bold, rest = (marked(body[a:b], words) for a, b in pairwise((start, max(start, first), min(last, end), end)))
    bold = bold and Markup("<strong>{}</strong>").format(bold)
    return Markup("{}{}{}{}{}").format("… " * (start > 0), lead, bold, rest, " …" * (end < len(body)))


def after_title(title: str, text: str) -> str | None:
    """Return what a text says after its title, None if its first sentence is another. The title may be cut by "…"."""
    body, begun = _plain_text(text, ""), " ".join(title.split()).rstrip(" .。…")
    after = body.removeprefix(begun)
    is_sentence = title.endswith("…") or begun[-1:] in _ENDS or after[:1] in _ENDS
    return after.lstrip(f" …{_ENDS}") if begun and after != body and is_sentence else None


def gist(chunk: StoredChunk) -> str:
    """Return a line or two of a note that say more than its title, "" if it has none."""
    body = _plain_text(chunk.text[: 3 * _GIST], "")
    after = body.removeprefix(" ".join(chunk.title.split()).rstrip(" .…"))
    text = body if after[:1].isalnum() else after.lstrip(" .,;:…")
    shown = _cut(text, _GIST)
    return f"{shown} …" if shown != text else text


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, cut at a space if there is one in its second half."""
    cut = text[:most]
    return cut.rpartition(" ")[0] if len(text) > most and " " in cut[most // 2 :] else cut


def _plain_text(text: str, heading: str) -> str:
    """Return a text on one line, without most marks of Markdown, and without a first heading that repeats `heading`."""
    lines = text.strip().splitlines()
    if lines and lines[0].startswith("#") and lines[0].lstrip("# ").startswith(heading.rpartition(" > ")[2]):
        del lines[0]
    named = _MARKED_LINK.sub(lambda link: link[1] or link[3] or link[2] or "", "\n".join(lines))
    return " ".join(_MARKS.sub(" ", named).split())
