"""
Text of notes as HTML that runs nothing, and loads nothing but pictures of the vault: Obsidian's Markdown, cleaned.

Other pictures are only named: one from another host would tell a stranger who reads. Links lead to notes of the vault,
or to other places without a referrer. Formulas are MathML, which needs no script. Syntax: https://help.obsidian.md/syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from markupsafe import Markup, escape

from spellbook.http.pages.rendering import plain_text
from spellbook.notes.links import OTHER_PICTURES, PICTURES, suffix
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
    "span": {"picture", "why", "missing", "box", "done"},
    "button": {"box", "done"},
    "a": {"wiki", "away", "hashtag"},
    "div": {"wide"},
    "ol": {"footnotes"},
}
_REGION = {"tabindex", "role", "aria-label"}
_ATTRIBUTES = {
    "a": {"href", "title", "id", "aria-label"},
    "ol": {"start"},
    "li": {"id", "value"},
    "th": {"align"},
    "td": {"align"},
    "div": _REGION,
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
_WIKI = regex(r"!?\[\[([^\[\]\n]{1,1000})\]\]")
_TAG = regex(r"#(?=[^\s#]*[^\d\s#])((?:[^\W]|[-/]|[^\x00-\u206f\s]){1,100})")
_BLOCK_ID = regex(r"\^[A-Za-z0-9-]+[ \t]*(?=\n|$)")
_AWAY = regex(r"(?i)(?:https?:)?//|mailto:")
_WIDTH = regex(r"(?:^|\|)\s*(\d{1,4})(?:x\d{1,4})?\s*$")
_FOOTNOTE = regex(r"(?m)^ {0,3}\[\^([^\]\s]{1,100})\]:.*(?:\n(?:[ \t]+\S.*|[ \t]*(?=\n(?: {4}|\t))))*")
_LABEL = regex(r"\[\^([^\]\s]{1,100})\]")

Reach = Callable[[str], str | None]
"""Returns the address of the page that a link's target leads to, None if it leads to no note."""

Show = Callable[[str], tuple[str, str]]
"""Returns the address of the picture that a target names, or "" and why it is not shown."""

Embed = Callable[[str], tuple[str, str] | None]
"""Returns title and text of the note or section that a target names, None if its reader may not see it."""

IMAGES = "/image/"
"""The beginning of the address of every picture."""


@dataclass
class Page:
    """A page of a note: how it finds and says things, and how much of it has been drawn."""

    reach: Reach
    show: Show
    embed: Embed | None
    say: Callable[..., str]
    title: str
    footnotes: Mapping[str, str] = field(default_factory=dict)
    """The definition of each footnote of the whole note, by label."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Numbers of footnotes, by label."""
    embeds: int = 0
    formulas: int = 0
    regions: int = 0

    def next_region(self) -> int:
        """Return the number of the next part that scrolls by itself: each has a name of its own."""
        self.regions += 1
        return self.regions

    def rendered(self, text: str, form: str, anchor: str = "") -> Markup:
        """
        Return a section's Markdown as HTML; `anchor` is its name on the page.

        A first heading that repeats the title is left out. With the id of a `form`, each box of a task is a button that
        sends it with its line, `at`.
        """
        import nh3

        first, _, after = text.lstrip().partition("\n")
        body = after if self.title and first.startswith("# ") and first[2:].strip() == self.title else text
        above = text[: len(text) - len(body)].count("\n")
        body, rest = body[:MOST_LETTERS], body[MOST_LETTERS:]
        labels = dict.fromkeys(_LABEL.findall(body)) if self.footnotes else {}
        notes = "\n\n".join(self.footnotes[label] for label in labels if label in self.footnotes)[:MOST_LETTERS]
        made = _parser().render(
            f"{body}\n\n{notes}", {"page": self, "form": form, "above": above, "docId": str(escape(anchor))}
        )
        clean = nh3.clean(
            made,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            attribute_filter=_allowed,
            allowed_classes=_CLASSES,
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
        )
        return Markup(plain(clean)) + (Markup("<pre>{}</pre>").format(rest) if rest else "")


def _allowed(tag: str, name: str, value: str) -> str | None:
    """Return the value of an attribute: no picture but those of the vault, no id but those of footnotes."""
    is_foreign = (name == "src" and not value.startswith(IMAGES)) or (name == "id" and not value.startswith("fn"))
    return None if is_foreign else value


def footnotes(text: str) -> dict[str, str]:
    """Return the definitions of a note's footnotes by label; the first one counts."""
    found: dict[str, str] = {}
    for match in _FOOTNOTE.finditer(text) if "[^" in text else ():
        found.setdefault(match[1], match[0].strip("\n"))
    return found


def targets(links: Sequence[Mapping[str, Any]], address: Callable[[str], str]) -> Reach:
    """Return how links are followed, by the links of a note as the catalog has them."""
    known = {name(each["target"]): address(each["id"]) for each in links if each["id"]}
    return lambda target: known.get(name(target))


def pictures(known: Mapping[str, str], address: Callable[[str], str], phrase: Callable[[str], str]) -> Show:
    """Return how pictures are shown; `known` has paths of a note's pictures by target, `phrase` translates reasons."""
    addresses = {name(target): address(path) for target, path in known.items() if path}

    def show(target: str) -> tuple[str, str]:
        if found := addresses.get(name(target)):
            return found, ""
        if _AWAY.match(target):
            return "", phrase("This picture is on another computer; pictures are shown from the vault only.")
        if suffix(name(target)) in OTHER_PICTURES:
            return "", phrase("Pictures of this kind are not shown; PNG, JPEG, GIF and WebP are.")
        return "", phrase("There is no such picture in the vault.")

    return show


def name(target: str) -> str:
    """Return the note that a link's target names, so that two spellings of it are equal."""
    return without_ending(unquote(target).strip().partition("#")[0]).removeprefix("./").casefold()


@cache
def _parser() -> markdown_it.MarkdownIt:
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin

    made = markdown_it.MarkdownIt("commonmark", {"html": False, "linkify": True, "maxNesting": 20})
    made.enable(["table", "strikethrough", "linkify"])
    assert made.linkify is not None
    made.linkify.set({"fuzzy_link": False, "fuzzy_email": False})  # a bare name is no link in Obsidian
    made.use(dollarmath_plugin, allow_labels=False, allow_space=False, double_inline=True)
    made.use(footnote_plugin)
    made.block.ruler.before("fence", "comment", _comment, {"alt": ["paragraph", "blockquote", "list"]})
    made.inline.ruler.before("link", "wikilink", _wikilink)
    made.inline.ruler.before("link", "obsidian", _marks)
    made.core.ruler.push("callouts", _callouts)
    rules: dict[str, Callable[..., str]] = {
        "image": lambda _, tokens, at, __, env: _picture(tokens[at].attrs["src"], tokens[at].content, env["page"].show),
        "link_open": _link,
        "heading_open": _heading,
        "heading_close": _heading,
        "wikilink": _wiki,
        "embed": _embed,
        "box": _box,
        "callout_break": lambda *_: "</p>\n<p>",
        "hashtag": lambda _, tokens, at, *__: _hashtag(tokens[at].content),
        "table_open": _table,
        "table_close": lambda *_: "</table></div>\n",
        "fence": _code,
        "code_block": _code,
        "math_inline": _formula,
        "math_inline_double": _formula,
        "math_block": _formula,
        "footnote_caption": lambda _, tokens, at, __, env: str(_number(tokens[at], env)),
        "footnote_block_open": lambda *_: '<hr>\n<ol class="footnotes">\n',
        "footnote_block_close": lambda *_: "</ol>\n",
        "footnote_open": _footnote,
        "footnote_anchor": _back,
    }
    for name, rule in rules.items():
        made.add_render_rule(name, rule)
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


def _marks(state: StateInline, silent: bool) -> bool:
    """Read ==highlights==, %%comments%%, #tags and ^block-ids."""
    sign, start = state.src[state.pos : state.pos + 2], state.pos
    if sign in {"==", "%%"}:
        end = state.src.find(sign, start + 2, state.posMax)
        if end <= start + 2:
            return False
        if not silent and sign == "==":
            last, state.posMax, state.pos = state.posMax, end, start + 2
            state.push("mark_open", "mark", 1)
            state.md.inline.tokenize(state)
            state.push("mark_close", "mark", -1)
            state.posMax = last
        state.pos = end + 2
        return True
    if sign[:1] not in {"#", "^"} or state.linkLevel or state.src[max(0, start - 1) : start].strip():
        return False
    match = (_TAG if sign[0] == "#" else _BLOCK_ID).match(state.src, start, state.posMax)
    if match and sign[0] == "#" and not silent:
        state.push("hashtag", "", 0).content = match[1]
    state.pos = match.end() if match else start
    return match is not None


def _comment(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a comment that begins a block: nothing of it is shown. Without an end in its section it is text."""
    first = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith("%%", first):
        return False
    close = state.src.find("%%", first + 2, state.eMarks[end - 1])
    line = next((at for at in range(start, end) if state.bMarks[at] <= close <= state.eMarks[at]), None)
    if close < 0 or line is None or state.src[close + 2 : state.eMarks[line]].strip():
        return False
    if not silent:
        state.line = line + 1
    return True


def _callouts(state: Any) -> None:
    """Find Obsidian's callouts in quotes, the boxes of tasks in lists, and embeds that stand alone."""
    tokens: list[Token] = state.tokens
    for number, token in enumerate(tokens):
        if token.type != "inline" or not token.children:
            continue
        first, before = token.children[0], tokens[number - 2].type if number > 1 else ""
        is_alone = not token.children[1:] and tokens[number - 1].type == "paragraph_open"
        if first.type == "wikilink" and first.markup and is_alone and (text := _embedded(first.content, state.env)):
            tokens[number - 1].hidden = True
            tokens[number + 1].hidden = True
            first.type = "embed"
            first.content = text
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


def _embedded(content: str, env: Any) -> str:
    """Return the text of an embedded note as HTML, "" if it is a picture, unknown, too much, or within an embed."""
    page: Page = env["page"]
    target = content.partition("|")[0].strip()
    if (
        page.embed is None
        or page.embeds >= _MOST_EMBEDS
        or suffix(target.partition("#")[0]) in PICTURES | OTHER_PICTURES
    ):
        return ""
    page.embeds += 1
    found = page.embed(target)
    if found is None:
        return ""
    title, text = found
    inner = replace(page, embed=None, title=title, footnotes=footnotes(text), numbers={})
    shown = inner.rendered(text[:_MOST_EMBEDDED], "", f"{env['docId']}:{page.embeds}")
    page.formulas, page.regions = inner.formulas, inner.regions
    more = " …" if len(text) > _MOST_EMBEDDED else ""
    link = f'<a class="wiki" href="{escape(page.reach(target) or "")}">{escape(title)}</a>'
    return f'<blockquote class="embed"><p class="small">{link}</p>{shown}{more}</blockquote>\n'


def _embed(_: RendererHTML, tokens: Sequence[Token], at: int, *__: Any) -> str:
    return tokens[at].content


def _table(_: RendererHTML, __: Sequence[Token], ___: int, ____: Any, env: Any) -> str:
    page: Page = env["page"]
    return f'<div class="wide" {_region(page.say("Table {0}", page.next_region()))}><table>\n'


def _hashtag(tag: str) -> str:
    return f'<a class="hashtag" href="/contents?tag={quote(tag, safe="")}">#{escape(tag)}</a>'


def _region(name: str) -> str:
    """Return the attributes of a part that scrolls by itself, so that keys reach it."""
    return f'role="region" tabindex="0" aria-label="{escape(name)}"'


def _code(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    page, language = env["page"], tokens[at].info.strip().lower()
    caption = f'<p class="small">{escape(page.say("Diagram (Mermaid), as text"))}</p>' if language == "mermaid" else ""
    region = _region(page.say("Code {0}", page.next_region()))
    return f"{caption}<pre {region}><code>{escape(tokens[at].content)}</code></pre>\n"


def _formula(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    """Return a formula as MathML, or as it is written if it is too long or cannot be read."""
    page: Page = env["page"]
    token = tokens[at]
    is_block = token.type != "math_inline"
    if not is_block and tokens[at + 1 :] and tokens[at + 1].content[:1].isdigit():  # two sums of money: `$5/$6`
        return f"${escape(token.content)}$"
    page.formulas += len(token.content)
    if len(token.content) <= _MOST_FORMULA and page.formulas <= _MOST_FORMULAS:
        from latex2mathml.converter import convert

        try:
            made = convert(token.content, display="block" if is_block else "inline")
            region = _region(page.say("Formula {0}", page.next_region())) if token.type == "math_block" else ""
            return f'<div class="wide" {region}>{made}</div>' if region else made
        except Exception:  # it raises errors of many kinds, also IndexError and RecursionError
            pass
    return f"<code>{escape(token.content)}</code>"


def _number(token: Token, env: Any) -> int:
    """Return the number of a footnote, which goes on from section to section."""
    numbers: dict[str, int] = env["page"].numbers
    label = token.meta.get("label") or f"{env['docId']} {token.meta['id']}"
    return numbers.setdefault(label, len(numbers) + 1)


def _footnote(made: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    anchor = made.rules["footnote_anchor_name"](tokens, at, options, env)
    return f'<li id="fn{anchor}" value="{_number(tokens[at], env)}">'


def _back(made: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    anchor = made.rules["footnote_anchor_name"](tokens, at, options, env)
    again = f":{tokens[at].meta['subId']}" if tokens[at].meta["subId"] else ""
    label = escape(env["page"].say("Back to the text"))
    return f' <a href="#fnref{anchor}{again}" aria-label="{label}">↩</a>'


def _box(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    is_done = tokens[at].content in "xX"
    attributes = f'class="box{" done" if is_done else ""}"'
    if not env["form"]:
        return f"<span {attributes}>{'☑' if is_done else '☐'}</span> "
    at, task = env["above"] + tokens[at].meta["line"], plain_text(tokens[at].meta["task"], "")[:_MOST_NAMED]
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
        address = env["page"].reach(href)
        token.attrs = {"href": address, "class": "wiki"} if address else {}
    return made.renderToken(tokens, at, options, env)


def _wiki(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:
    target, bar, shown = tokens[at].content.partition("|")
    if tokens[at].markup and suffix(target.partition("#")[0].strip()) in PICTURES | OTHER_PICTURES:
        return _picture(target.strip(), shown, env["page"].show)
    label = escape((shown if bar and shown.strip() else target).strip())
    href = env["page"].reach(target)
    return f'<a class="wiki" href="{escape(href)}">{label}</a>' if href else f'<span class="missing">{label}</span>'
