// What a page can do beyond plain links and forms: copying, and keys. Everything else works without.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent).then(() => {
    button.textContent = button.dataset.copied;
  });
});

// The keys of every page. Letters and signs count where nobody types; a Korean keyboard gives ㅜ for n and ㅏ for k.
const palette = document.getElementById("palette");
const keys = {
  "/": search,
  "?": () => document.getElementById("keys").showModal(),
  n: () => document.querySelector("[data-key=n]")?.click(), // the menu's link, for who may write
};
keys["ㅜ"] = keys.n;

function search() {
  const box = document.querySelector("main input[type=search]");
  if (box) {
    box.focus();
    box.select();
  } else if (palette) {
    if (!palette.open) palette.showModal();
    palette.querySelector("input").select();
  } else location.href = "/search";
}

// Moves from the search box through the hits, in the dialog if it is open.
function move(event) {
  const area = palette?.open ? palette : document.querySelector("main");
  const box = area.querySelector("input[type=search]");
  const places = [box, ...area.querySelectorAll("[data-hit]")].filter((each) => each && each.offsetParent !== null);
  const here = places.indexOf(document.activeElement);
  if (places.length < 2 || (here < 0 && document.activeElement !== document.body)) return;
  event.preventDefault();
  const next = places[Math.min(Math.max(here + (event.key === "ArrowDown" ? 1 : -1), 0), places.length - 1)];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.altKey || !document.querySelector("main")) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const commanding = event.metaKey || event.ctrlKey;
  if (commanding && "kKㅏ".includes(event.key)) {
    event.preventDefault();
    search();
  } else if (commanding && event.key === "Enter" && event.target.form) {
    event.target.form.requestSubmit(event.target.form.querySelector("[formaction]")); // on Home: keep
  } else if (commanding) {
    return;
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    move(event);
  } else if (!typing && !document.querySelector("dialog[open]") && Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
});

// Enter in the dialog opens the first hit, if the hits are those of the question; else it shows all on the page.
palette?.addEventListener("submit", (event) => {
  const found = palette.querySelector("[data-question]");
  const first = found?.querySelector("[data-hit]");
  if (!first || found.dataset.question !== palette.querySelector("input").value.trim()) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  first.click();
}, true);

// Recent questions stay in this browser: the server does not keep them.
const recent = {
  name: "spellbook.questions",
  read() {
    try { return JSON.parse(localStorage.getItem(this.name)).filter((each) => typeof each === "string"); } catch { return []; }
  },
  write(questions) {
    try { localStorage.setItem(this.name, JSON.stringify(questions.slice(0, 10))); } catch { /* nothing is kept */ }
    this.show();
  },
  keep(question) {
    const text = (question || "").trim().slice(0, 200);
    if (text) this.write([text, ...this.read().filter((each) => each !== text)]);
  },
  show() {
    const questions = this.read();
    for (const section of document.querySelectorAll("[data-recent]")) {
      section.hidden = !questions.length || Boolean(palette?.contains(section) && palette.querySelector("input").value.trim());
      section.querySelector("ul").replaceChildren(...questions.map((question) => {
        const [item, link] = [document.createElement("li"), document.createElement("a")];
        link.href = `/search?q=${encodeURIComponent(question)}`;
        link.textContent = question;
        link.dataset.hit = "";
        item.append(link);
        return item;
      }));
    }
  },
};

recent.show();
if (location.pathname === "/search") recent.keep(new URLSearchParams(location.search).get("q"));
palette?.addEventListener("input", () => recent.show());
document.addEventListener("htmx:afterSettle", () => recent.show());
document.addEventListener("submit", (event) => {
  if (event.target.matches("[role=search]") && !event.submitter?.matches("[formaction]")) recent.keep(new FormData(event.target).get("q"));
  if (!event.target.action.endsWith("/logout")) return;
  recent.write([]);
  sessionStorage.removeItem("draft");
});
document.addEventListener("click", (event) => {
  const area = event.target.closest("[data-hit]")?.closest("main, dialog");
  if (area) recent.keep(area.querySelector("input[type=search]")?.value);
  if (event.target.closest("[data-forget]")) recent.write([]);
});

// A page with text that was not saved asks before it is left.
let changed = false;
document.addEventListener("input", (event) => { if (event.target.matches("textarea")) changed = true; });
document.addEventListener("submit", () => { changed = false; });
window.addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });

// The text of a new note outlives a login that ended and a server that is away, in this tab, until it is saved.
const draft = document.querySelector("form[data-draft]");
if (draft) {
  const text = draft.elements.text;
  if (!text.value.trim() && sessionStorage.getItem("draft")) {
    text.value = sessionStorage.getItem("draft");
    changed = true;
  }
  text.addEventListener("input", () => sessionStorage.setItem("draft", text.value));
} else if (document.querySelector(".alert.done")) {
  sessionStorage.removeItem("draft");
}

// The rest of the menu folds when one goes on elsewhere.
document.addEventListener("click", (event) => {
  const rest = document.querySelector(".menu .rest[open]");
  if (rest && !rest.contains(event.target)) rest.open = false;
});

// The code that a phone scans holds the token behind the #: no server, log or other page is told of it.
const entry = document.querySelector("form[action='/login']");
if (entry && location.hash) {
  entry.elements.token.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  entry.submit();
}
