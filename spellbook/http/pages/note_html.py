"""
Text of notes as HTML that runs nothing, and loads nothing but pictures of the vault: Obsidian's Markdown, cleaned.

Other pictures are only named: one from another host would tell a stranger who reads. Links lead to notes of the vault,
or to other places without a referrer. Formulas are MathML, which needs no script. Syntax: https://help.obsidian.md/syntax.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from markupsafe import Markup, escape

from spellbook.http.pages.excerpts import plain_text
from spellbook.notes.links import OTHER_PICTURES, PICTURES, suffix
from spellbook.notes.markdown import TAG
from spellbook.system.lazy import markdown_it, regex
from spellbook.text.quoting import plain
from spellbook.text.unicode import without_ending

if TYPE_CHECKING:
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MOST_LETTERS = 100_000
"""Letters of one section that are rendered; the rest is shown as plain text."""

_MOST_NAMED = 300
"""Letters of the name or address of a picture that is not shown."""

_MOST_FORMULA = 2000
"""Letters of a formula that is drawn; a longer one is shown as it is written. By hand."""

_MOST_FORMULAS = 20_000
"""Letters of all formulas of a page that are drawn: 0.2 s."""

_NARROW = 16
"""Letters of a formula within a line that fits the narrowest screen; a longer one scrolls by itself. By hand."""

_MOST_EMBEDS = 20
_MOST_EMBEDDED = 20_000
"""Notes whose text is shown within a page, and letters of each. By hand."""

_MATH = {
    *("math", "menclose", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom"),
    *("mprescripts", "mroot", "mrow", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext"),
    *("mtr", "munder", "munderover"),
}
_TAGS = _MATH | {
    "button",
    *("a", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h2", "h3", "h4", "h5", "h6", "hr"),
    *("img", "li", "mark", "ol", "p", "pre", "s", "span", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr"),
    "ul",
}
_CLASSES = {
    "blockquote": {"callout", "embed"},
    "p": {"callout-title", "small"},
    "span": {"wide", "picture", "why", "missing", "box", "done"},
    "button": {"box", "done"},
    "a": {"wiki", "away", "hashtag"},
    "div": {"wide"},
    "ol": {"footnotes-list"},
}
_REGION = {"tabindex", "role", "aria-label"}
_ATTRIBUTES = {
    "a": {"href", "title", "id"},
    "ol": {"start"},
    "li": {"id"},
    "th": {"align"},
    "td": {"align"},
    "div": _REGION,
    "span": _REGION,
    "pre": _REGION,
    "img": {"src", "alt", "width", "loading"},
    "button": {"name", "value", "form", "aria-pressed", "aria-label"},
    "math": {"display"},
    "menclose": {"notation"},
    "mfrac": {"linethickness"},
    "mi": {"mathvariant"},
    "mo": {"stretchy", "fence", "largeop", "movablelimits", "minsize", "maxsize", "separator", "form"},
    "mspace": {"width"},
    "mtable": {"columnalign", "rowspacing", "columnspacing"},
}
_CALLOUT = regex(r"(?i)^\[!([\w-]{1,30})\][+-]?[ \t]*(.*)")
_TASK = regex(r"^\[([ xX])\][ \t]+")
_MARK = regex(
    r"(?s)!\[\[(?P<embed>[^\[\]\n]{1,1000})\]\]|\[\[(?P<wikilink>[^\[\]\n]{1,1000})\]\]"
    rf"|(?<![^\s*_~=])\#(?P<hashtag>{TAG})"
    r"|==(?=[^\s=])(?P<mark>.{1,1000}?)(?<=[^\s=])==|%%.{1,2000}?%%|(?<!\S)\^[A-Za-z0-9-]+[ \t]*(?=\n|$)"
)
_AWAY = regex(r"(?i)(?:https?:)?//|mailto:")
_WIDTH = regex(r"(?:^|\|)\s*(\d{1,4})(?:x\d{1,4})?\s*$")
_COMMENT = regex(r"(?ms)%%(?:(?!%%).)*%%[ \t]*$")

Embed = Callable[[str], tuple[str, str] | None]
"""Returns title and text of the note or section that a target names, None if its reader may not see it."""

_TAGGED = Markup('<a class="hashtag" href="/contents?tag={}">#{}</a>')

IMAGES = "/image/"
"""The beginning of the address of every picture."""


@dataclass
class Page:
    """
    A page of a note: what it shows by other notes, and how much of it has been drawn.

    `links` are the addresses of notes, and `pictures` those of pictures, by the `name` of their targets.
    """

    links: Mapping[str, str]
    pictures: Mapping[str, str]
    embed: Embed
    say: Callable[..., str]
    embeds: int = 0
    formulas: int = 0
    """Letters of the formulas so far."""
    regions: int = 0

    def region(self, kind: str) -> str:
        """Return the attributes of a part that scrolls by itself, so that keys reach it; each has a name of its own."""
        self.regions += 1
        return f'role="region" tabindex="0" aria-label="{escape(self.say(kind, self.regions))}"'

    def picture(self, target: str) -> tuple[str, str]:
        """Return the address of the picture that a target names, or "" and why it is not shown."""
        if found := self.pictures.get(name(target)):
            return found, ""
        if _AWAY.match(target):
            return "", self.say("This picture is on another computer; pictures are shown from the vault only.")
        if suffix(name(target)) in OTHER_PICTURES:
            return "", self.say("Pictures of this kind are not shown; PNG, JPEG, GIF and WebP are.")
        return "", self.say("There is no such picture in the vault.")

    def rendered(self, sections: Sequence[tuple[str, str]], title: str, inside: str = "") -> list[Markup]:
        """
        Return the HTML of each section, a pair of Markdown and the id of a form; all are read as one text.

        A first heading that repeats the `title` is left out. With the id of a form, each box of a task is a button that
        sends it with its line, `at`. An embedded text has a name, `inside`, and shows no other.
        """
        texts = [text[:MOST_LETTERS] for text, _ in sections]
        starts = [*accumulate((text.count("\n") + 2 for text in texts[:-1]), initial=0)]
        env: dict[str, Any] = {"page": self, "docId": inside or None}
        parts: list[list[Token]] = [[] for _ in texts]
        at = 0
        for token in _parser().parse("\n\n".join(texts), env):
            if token.map and not token.level:
                at = max(at, bisect(starts, token.map[0]) - 1)
            if token.tag == "h1":  # the page has its own
                token.tag = "h2"
            parts[at].append(token)
        made: list[Markup] = []
        for (text, form), start, part in zip(sections, starts, parts, strict=True):
            if part and part[0].markup in {"#", "="} and part[1].content == title:
                del part[:3]
            html = _parser().renderer.render(part, _parser().options, {**env, "form": form, "above": start})
            rest = text[MOST_LETTERS:]
            made.append(_clean(html) + (Markup("<pre>{}</pre>").format(rest) if rest else ""))
        return made


def _clean(html: str) -> Markup:
    import nh3

    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        # No picture but those of the vault.
        attribute_filter=lambda tag, name, value: None if name == "src" and not value.startswith(IMAGES) else value,
        allowed_classes=_CLASSES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(plain(clean))


def name(target: str) -> str:
    """Return the note that a link's target names, so that two spellings of it are equal."""
    return without_ending(unquote(target).strip().partition("#")[0]).removeprefix("./").casefold()


@cache
def _parser() -> markdown_it.MarkdownIt:
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin

    made = markdown_it.MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
    made.use(dollarmath_plugin, allow_labels=False, allow_space=False, double_inline=True)
    made.use(footnote_plugin)
    made.use(gfm_autolink_plugin)
    made.disable(["gfm_autolink_www", "gfm_autolink_email"])  # a bare name is no link in Obsidian
    made.block.ruler.before("fence", "comment", _comment, {"alt": ["paragraph", "blockquote", "list"]})
    made.inline.ruler.before("link", "obsidian", _marks)
    made.core.ruler.push("obsidian_blocks", _blocks)
    rules: dict[str, Callable[..., str]] = {
        "image": lambda _, tokens, at, __, env: _picture(tokens[at].attrs["src"], tokens[at].content, env["page"]),
        "link_open": _link,
        "wikilink": _wiki,
        "embed": _embed,
        "embed_box": _embed_box,
        "box": _box,
        "callout_break": lambda *_: "</p>\n<p>",
        "hashtag": lambda _, tokens, at, *__: _TAGGED.format(quote(tokens[at].content, safe=""), tokens[at].content),
        "table_open": lambda *given: f'<div class="wide" {given[-1]["page"].region("Table {0}")}><table>\n',
        "table_close": lambda *_: "</table></div>\n",
        "fence": _code,
        "code_block": _code,
        "math_inline": _formula,
        "math_inline_double": _formula,
        "math_block": _formula,
    }
    for kind, rule in rules.items():
        made.add_render_rule(kind, rule)
    return made


def _marks(state: StateInline, silent: bool) -> bool:
    """Read [[target|shown]], ==highlights==, %%comments%%, #tags and ^block-ids."""
    match = _MARK.match(state.src, state.pos, state.posMax)
    if match is None or (match["hashtag"] and state.linkLevel):
        return False
    kind = match.lastgroup
    if kind == "mark" and not silent:
        inside: list[Token] = []  # of its own: the parser goes through all tokens of the list that it is given
        state.md.inline.parse(match[kind], state.md, state.env, inside)
        state.push("mark_open", "mark", 1)
        state.tokens += inside
        state.push("mark_close", "mark", -1)
    elif kind and not silent:
        state.push(kind, "", 0).content = match[kind]
    state.pos = match.end()
    return True


def _comment(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a comment that begins a block: nothing of it is shown. Without an end it is text."""
    match = _COMMENT.match(state.src, state.bMarks[start] + state.tShift[start], state.eMarks[end - 1])
    if match and not silent:
        state.line = start + match[0].count("\n") + 1
    return match is not None


def _blocks(state: Any) -> None:
    """Find Obsidian's callouts in quotes, the boxes of tasks in lists, and embeds that stand alone."""
    tokens: list[Token] = state.tokens
    for number, token in enumerate(tokens):
        if token.type != "inline" or not token.children:
            continue
        first = token.children[0]
        before = tokens[number - 2].type if number > 1 else ""
        is_alone = not token.children[1:] and tokens[number - 1].type == "paragraph_open"
        if first.type == "embed" and is_alone:
            tokens[number - 1].hidden = True
            tokens[number + 1].hidden = True
            first.type = "embed_box"
        if first.type != "text":
            continue
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


def _embed(_: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """Return a picture; another note, which stands within a text, is a link."""
    target, __, shown = tokens[at].content.partition("|")
    is_picture = suffix(target.partition("#")[0].strip()) in PICTURES | OTHER_PICTURES
    return _picture(target.strip(), shown, env["page"]) if is_picture else _wiki(_, tokens, at, options, env)


def _embed_box(_: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """Return an embedded note in a box; as a link if it is unknown, too much, or within another."""
    page: Page = env["page"]
    target = tokens[at].content.partition("|")[0].strip()
    found = page.embed(target) if page.embeds < _MOST_EMBEDS and not env["docId"] else None
    if found is None:
        return f"<p>{_embed(_, tokens, at, options, env)}</p>\n"
    page.embeds += 1
    title, text = found
    (shown,) = page.rendered([(text[:_MOST_EMBEDDED], "")], title, f"e{page.embeds}")
    link = f'<a class="wiki" href="{escape(page.links.get(name(target), ""))}">{escape(title)}</a>'
    more = " …" if len(text) > _MOST_EMBEDDED else ""
    return f'<blockquote class="embed"><p class="small">{link}</p>{shown}{more}</blockquote>\n'


def _code(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    page: Page = env["page"]
    is_diagram = tokens[at].info.strip().lower() == "mermaid"
    caption = f'<p class="small">{escape(page.say("Diagram (Mermaid), as text"))}</p>' if is_diagram else ""
    return f"{caption}<pre {page.region('Code {0}')}><code>{escape(tokens[at].content)}</code></pre>\n"


def _formula(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    """Return a formula as MathML, or as it is written if it is too long or cannot be read."""
    from latex2mathml.converter import convert

    page: Page = env["page"]
    kind, content = tokens[at].type, tokens[at].content
    is_inline = kind == "math_inline"
    if is_inline and tokens[at + 1 :] and tokens[at + 1].content[:1].isdigit():  # two sums of money: `$5/$6`
        return f"${escape(content)}$"
    page.formulas += len(content)
    if len(content) <= _MOST_FORMULA and page.formulas <= _MOST_FORMULAS:
        with suppress(Exception):  # it raises errors of many kinds, also IndexError and RecursionError
            made = convert(content, display="inline" if is_inline else "block")
            if is_inline and len(content) <= _NARROW:
                return made
            tag = "div" if kind == "math_block" else "span"
            return f'<{tag} class="wide" {page.region("Formula {0}")}>{made}</{tag}>'
    return f"<code>{escape(content)}</code>"


def _box(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    is_done = tokens[at].content in "xX"
    attributes = f'class="box{" done" if is_done else ""}"'
    if not env["form"]:
        return f"<span {attributes}>{'☑' if is_done else '☐'}</span> "
    at, task = tokens[at].meta["line"] - env["above"], plain_text(tokens[at].meta["task"], "")[:_MOST_NAMED]
    sent = Markup('name="at" value="{}" form="{}" aria-label="{}"').format(at, env["form"], task)
    return f'<button {attributes} {sent} aria-pressed="{str(is_done).lower()}">{"☑" if is_done else "☐"}</button> '


def _picture(target: str, label: str, page: Page) -> str:
    """Return a picture, or its name and why it is not shown; a number behind `|` in its label is its width."""
    width = _WIDTH.search(label)
    label = label[: width.start()] if width else label
    address, why = page.picture(target)
    named = unquote(target)[:_MOST_NAMED]
    if address:
        sized = f' width="{width[1]}"' if width else ""
        alt = escape(label.strip() or named.rpartition("/")[2].rpartition(".")[0])
        return f'<img src="{escape(address)}" alt="{alt}"{sized} loading="lazy">'
    label = label.strip()[:_MOST_NAMED]
    name = f"{escape(label)} · {escape(named)}" if label and label != named else escape(named)
    return f'<span class="picture">{name}<span class="why">{escape(why)}</span></span>'


def _link(made: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    href = str(token.attrs.get("href", ""))
    if _AWAY.match(href) and not href.startswith("//"):
        token.attrSet("class", "away")
    else:
        address = env["page"].links.get(name(href))
        token.attrs = {"href": address, "class": "wiki"} if address else {}
    return made.renderToken(tokens, at, options, env)


def _wiki(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    target, bar, shown = tokens[at].content.partition("|")
    label = escape((shown if bar and shown.strip() else target).strip())
    href = env["page"].links.get(name(target))
    return f'<a class="wiki" href="{escape(href)}">{label}</a>' if href else f'<span class="missing">{label}</span>'
