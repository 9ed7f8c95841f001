"""Command lines: what each prints on stdout and stderr, and its exit code."""

from __future__ import annotations

import shlex
import signal
import subprocess

from . import vault
from .place import Place, lines, slug

COMMANDS = """
init reindex watch mcp serve memorize find search recent why show history topics context open scribe add save erase
revise merge restore log undo mv export import snapshot snapshot_create snapshot_list snapshot_verify snapshot_restore
snapshot_prune status check doctor chroma demo install merge-driver sync publish migrate model model_list model_pull
model_remove token token_add token_list token_remove completion
"""

READING = r"""
--version
nonsense
--vault /nowhere search a
search "when does the harbor open"
search "when does the harbor open" --json
search "키는 언제 교체하나" -n 2
search "키는 언제 교체하나" --json -n 1
search "backup at night" --also "A dump is taken every night." --also "백업" -n 3 --filter topic=database
search --filter category=decision
search --filter category=decision --json -n 2
search "zebra spaceship quantum"
search "zebra spaceship quantum" --json
search a --also b --also c --also d --also e
search a --guess
search backup --filter nonsense
search backup --filter topic=nothing
search backup --filter "importance=high" --filter "language!=ko" --filter path=en/
search backup --filter created=2026-01..2026-06 --json
search backup --filter created=yesterday-ish
search backup --min-score 0.9
search backup --min-score 7
search backup -n 0
search backup -n 101
search backup -n many
search backup --max-tokens 60
search backup --max-tokens 1
search backup --scope acme
search backup --scope "../x"
search backup --as-of HEAD~1
search backup --as-of HEAD~1 --json -n 1
search backup --as-of 2031-01-01
search backup --as-of never
search ""
search
memorize "왜 PostgreSQL로 옮겼나?"
memorize "why did sessions move" --json -n 2
memorize sessions --min-score 0.99 --filter category=decision --scope lantern --max-tokens 100
memorize sessions --as-of HEAD~1
memorize
find E1042
find E1042 fence --all --json
find "a fence was never closed" 울타리 -n 3
find nothinglikethis
find redis --filter tags=infra/db --max-tokens 80 --scope acme --as-of HEAD
find 레디스 --json
find
recent
recent -n 3 --json
recent --filter category=decision --filter when=2026
recent --scope lantern -n 4
recent --as-of HEAD~1 -n 2
recent -n 0
why "when does the harbor open"
why "when does the harbor open" article/harbor.md
why "키 교체" --by memorize -n 2 --json
why backup en/database.md --by find --filter topic=database --scope acme --min-score 0.1 --also dump
why backup nowhere.md
why backup --by guess
show en/deploy.md
show ko/배포.md --json
show "en/deploy.md#rollback"
show 01J00000000000000000000100
show decision/sessions-old.md
show article/harbor.md
show hostile.md
show en/deploy.md --as-of HEAD~1
show nowhere
show ../outside.md
history en/deploy.md
history ko/배포.md -n 1 --json
history nowhere.md
history en/deploy.md -n 0
topics
topics --json
topics project/deploy
topics project/deploy --json
topics --filter category=decision
topics nothing
topics --scope lantern --as-of HEAD
context
context --session-start --max-tokens 300 --json
context --prompt "when does the harbor open" --also "It opens on Mondays."
context --prompt "zebra spaceship"
context --reminder
context --scope lantern
context --max-tokens 1
log
log -n 2 --json
log -n 0
status
status --json
check
check --json -n 2 --filter category=project
check --min-recall5 0.99 --min-mrr 0.99 --all -n 1
check --min-recall5 2
doctor
doctor --fix links
doctor --fix nothing
chroma --json
model list
model list --json
model pull nobody/nothing/at/all
model remove nothing
token list
token list --json
token list --published --json
token remove nobody
token remove nobody --published
completion bash
completion tcsh
snapshot list
snapshot list --json
snapshot verify --json
snapshot restore nothing
mv en/deploy.md moved/ --dry-run
mv en/nothing.md moved/ --dry-run
mv en/deploy.md ../outside.md
mv en garden --dry-run --json
merge twins/a.md twins/b.md
merge twins/a.md twins/b.md --keep a --json
merge twins/a.md twins/a.md
erase nowhere
restore nowhere
undo 9999
undo --dry-run
undo x
export {work}/missing/folder/a.zip
import {work}/nothing.zip
import
install nothing
install cursor --file {work}/cursor.json --dry-run
install claude-code --file {work}/claude.json --hooks --recall --dry-run --scope lantern
install vscode --project {work} --url --dry-run --name notes
install obsidian --dry-run
install git-hooks --dry-run
migrate
migrate --rollback
migrate --to hash
migrate --to nothing:x
migrate --to hash --dry-run --json
publish
publish --json
model pull nothing --from nowhere:x
serve --port 99999
serve --trusted-proxy 127.0.0.1 --keyfile {work}/none.pem --name a --writes-to a=http://127.0.0.1:1 --debug-log --wiki x --container --port x
serve --port 0 --published --name a --writes-to b=http://127.0.0.1:1 --scope acme
mcp --debug-log --scope "../x" --toolsets x
serve --host 0.0.0.0 --certfile {work}/none.pem
serve --port 0 --published
serve --toolsets nonsense
mcp --toolsets nonsense
mcp --wiki {work}/none
sync --no-push --json -m "Nothing to do"
open nowhere
open en/deploy.md --obsidian
reindex
reindex --json
reindex --quiet
reindex --words-only --json
merge-driver {work}/none {work}/none {work}/none
"""
"""Lines that change nothing, good ones and bad ones."""

LONG = "The night train is cleaned every 6 days by Sora, because the depot in Daejeon is closed on Sundays and the crew asked for it."

WRITING = r"""
init {work}/other --guides --gitignore
init {work}/other
init {work}/other/note.txt
add "Mina moved the staging database to port 5433" -t staging
add "Mina moved the staging database to port 5433" --json
add 한국어로 남기는 짧은 메모 --topic 메모 --category knowledge --title "짧은 메모" --source me --scope acme -t 하나 -t 둘
add "password = hunter2secretvalue99"
add - < LONG
add "AKIAIOSFODNN7EXAMPLE is a key" --force --json
scribe - --topic train --title "Night train" -k night -k train -k depot -q "How often is the train cleaned?" --category knowledge < LONG
scribe - --topic train -k night --json < LONG
scribe - --topic train -k night --force --source depot --scope acme --json < LONG
scribe - < EMPTY
scribe - --json < CHUNK
scribe {work}/none.md
save https://example.com/post --category engineering --title "A post" --summary "What a post says." -t news --text - --json < LONG
save https://example.com/post --category other
save https://127.0.0.1:9/none --category x
save {work}/page.html --category pages --category html --scope acme --force
save {work}/none.pdf --category x
save https://example.com/empty --category x --text - < EMPTY
revise en/coffee.md --replace "18 g" "19 g"
revise en/coffee.md --replace "not there" "x"
revise en/coffee.md --set importance=high --set tags=a,b --unset questions --json
revise "en/coffee.md#cleaning" - --dry-run < LONG
revise "en/coffee.md#cleaning" - --append < LONG
revise "en/coffee.md#cleaning" - --expect 00000000 < LONG
revise ko/커피.md --replace 커피 coffee --all --json
revise en/coffee.md --set "secret=AKIAIOSFODNN7EXAMPLE" --force
revise en/coffee.md
revise nowhere - < LONG
log
undo
undo --json
undo 1 --dry-run
undo 1
mv en/coffee.md kitchen/coffee.md
mv ko archive/ko --json
mv kitchen/coffee.md en/deploy.md
erase "en/deploy.md#rollback" --json
erase en/deploy.md
restore en/deploy.md
restore "en/deploy.md#rollback" --json
erase "en/keys.md#emergency" --whole
erase train --topic
erase memory/working.md --hard --yes
erase memory/ferry.md --hard
erase nothing --topic --json
merge twins/a.md twins/b.md --yes
merge twins/a.md twins/b.md --keep both --yes --json
doctor --fix links --yes
export {work}/all.json --json
export {work}/all.zip --filter category=decision --no-attachments
export - --format json --filter topic=sessions
import {work}/all.zip --into old --dry-run
import {work}/all.zip --into old --json
import {work}/all.zip --into old --on-conflict rename
import {work}/all.json --on-conflict overwrite --no-attachments
import --drop
snapshot
snapshot create --json
snapshot list
snapshot verify
snapshot restore latest --into {work}/then --skip-damaged --json
snapshot restore latest --yes
snapshot prune --json
search coffee --as-of latest
token add laptop
token add laptop
token add team --may read --sees team
token add bad --may write --sees public
token add ann --published --only-vault vault
token list
token list --json
token remove laptop
install cursor --file {work}/cursor.json
install cursor --file {work}/cursor.json --url http://127.0.0.1:17950 --with-token
install cursor --file {work}/cursor.json --force --scope auto
install cursor --file {work}/cursor.json --uninstall
install claude-code --project {work} --hooks --recall
install git-hooks
install git-merge
install git-hooks --uninstall
merge-driver {work}/base.md {work}/ours.md {work}/theirs.md --path note.md --ours mine --theirs yours
merge-driver {work}/base.md {work}/ours.md {work}/clash.md
sync -m "All notes" --no-push
sync --json
reindex --full --json
reindex --queued
chroma --copy {work}/vectors
migrate --to hash --yes --json
demo --nothing
demo
open en/deploy.md
status
log -n 100 --json
recent -n 100 --json
"""
"""Lines that change the vault, one after another. `<` names what stdin holds."""

IN_KOREAN = (
    "add",
    "save",
    "revise",
    "undo",
    "mv",
    "erase",
    "merge",
    "import",
    "snapshot",
    "token",
    "install",
    "scribe",
    "restore",
)
"""Commands whose changes are made a second time with Korean messages, in the same order."""

STDIN = {
    "LONG": LONG,
    "EMPTY": "",
    "CHUNK": '{"text": "Boats are painted in April by Haneul, before the season begins on 2026-05-01.", "metadata": {"topic": "boats", "keywords": ["boats", "paint", "April"], "questions": ["When are boats painted?"]}}',
}

FILES = {
    "page.html": "<html><head><title>Tides</title></head><body><article><h1>Tides</h1>"
    + "<p>The tide turns twice a day, and the harbor master writes it down in a book.</p>" * 8
    + "</article></body></html>",
    "base.md": "# A\n\none\n\n## B\n\ntwo\n",
    "ours.md": "# A\n\none and more\n\n## B\n\ntwo\n",
    "theirs.md": "# A\n\none\n\n## B\n\ntwo and a half\n",
    "clash.md": "# A\n\none or less\n\n## B\n\ntwo\n",
}


_LATE = (b"no context within 1 s.", "1초 안에 준비하지 못했습니다.".encode())
"""What `context` says on a machine that is too busy: it is asked again."""

_MOST_TRIES = 20


def reading(place: Place) -> None:
    """Record the help of all commands and the lines that change nothing, and some of both in Korean."""
    _make(place)
    for language in ("en", "ko"):
        for command in ("", *COMMANDS.split())[:: 1 if language == "en" else 4]:
            _record(place, f"help-{language}", f"{command.replace('_', ' ')} --help", language)
        for line in READING.strip().splitlines()[:: 1 if language == "en" else 3]:
            _record(place, f"reading-{language}", line, language)


def _make(place: Place) -> None:
    vault.make(place)
    place.do("init", "--quiet", "--bare", "--initial-branch=main", str(place.root / "shared.git"), program=["git"])
    vault.git(place, "remote", "add", "origin", str(place.root / "shared.git"))
    vault.git(place, "push", "--quiet", "--set-upstream", "origin", "main")
    for name, text in FILES.items():
        (place.root / "work" / name).write_text(text, "utf-8")


def writing(place: Place) -> None:
    """Record the lines that change the vault."""
    _make(place)
    for line in WRITING.strip().splitlines():
        _record(place, "writing-en", line, "en")
    for line in WRITING.strip().splitlines():
        if line.split()[0] in IN_KOREAN:
            _record(place, "writing-ko", line, "ko")
    _record(place, "other", "search harbor", "", LANG="ko_KR.UTF-8")
    _record(place, "other", "search harbor", "", SPELLBOOK_EMBEDDER="nothing")
    _watch(place)
    _record(place, "other", "context", "en", stdin='{"hook_event_name": "UserPromptSubmit", "prompt": "harbor"}')


def _watch(place: Place) -> None:
    """Record `watch`, which ends by Ctrl-C once it has said that it watches."""
    command = [str(place.python), "-m", "spellbook", "watch"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=place.env(), cwd=place.root / "work"
    ) as child:
        assert child.stdout
        said = [child.stdout.readline()]
        child.send_signal(signal.SIGINT)
        said.append(child.stdout.read())
    place.write("other/watch.txt", f"[code] {child.returncode}\n{b''.join(said).decode()}")


def _record(place: Place, group: str, line: str, language: str, stdin: str = "", **more: str) -> None:
    line, _, name = line.partition(" < ")
    words = [word.replace("{work}", str(place.root / "work")) for word in shlex.split(line)]
    given = STDIN.get(name, stdin)
    for _ in range(_MOST_TRIES):
        done = place.run(*words, stdin=given.encode(), **{"SPELLBOOK_LANG": language, "EDITOR": "cat", **more})
        if not any(late in done.stderr for late in _LATE):
            break
        place.tick(place.step - 1)
    out, err = (text.decode("utf-8", "backslashreplace") for text in (done.stdout, done.stderr))
    number = sum(1 for _ in (place.out / group).glob("*")) if (place.out / group).exists() else 0
    text = f"$ spellbook {line}\n[code] {done.returncode}\n[stdout]\n{lines(out)}\n[stderr]\n{err}"
    place.write(f"{group}/{number + 1:03d}-{slug(shlex.split(line)[:4])}.txt", text)
