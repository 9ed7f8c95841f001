// What a page can do beyond plain links and forms: copying, keys, drafts, and a save that outlives a lost network.
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
  "/": toBox,
  "?": () => document.getElementById("keys").showModal(),
  n: () => document.querySelector("[data-key=n]")?.click(), // the menu's link, for who may write
};
keys["ㅜ"] = keys.n;

// Opens the dialog that searches. Every page has it.
function search() {
  if (!palette.open) palette.showModal();
  palette.querySelector("input").select();
}

function toBox() {
  const box = document.querySelector("main form[action='/search'] input[type=search]");
  if (!box) return search();
  box.focus();
  box.select();
}

if (/Mac|iP(hone|ad|od)/.test(navigator.platform)) {
  for (const key of document.querySelectorAll("[data-apple]")) key.textContent = key.dataset.apple;
}
document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-palette]")) return;
  event.preventDefault();
  search();
});

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
  if (event.isComposing || event.altKey || !palette) return;
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
  if (!event.target.matches("[role=search]")) return;
  const found = palette.querySelector("[data-question]");
  const first = found?.querySelector("[data-hit]");
  if (!first || found.dataset.question !== palette.querySelector("input").value.trim()) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  first.click();
}, true);

// Where nothing can be asked the dialog says so, instead of the hits of another question.
for (const failure of ["htmx:sendError", "htmx:responseError"]) {
  palette?.addEventListener(failure, () => {
    document.getElementById("found").replaceChildren();
    document.getElementById("heard").textContent = palette.dataset.failed;
  });
}

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
  for (const store of drafts.stores) {
    for (const name of Object.keys(store)) if (name.startsWith(drafts.name)) store.removeItem(name);
  }
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

// What is written outlives a login that ended and a server that is away: in this tab while it is typed, and on this
// device once it could not be sent. With it goes what the text was based on, so that a conflict stays one.
const drafts = {
  name: "spellbook.draft ",
  stores: [sessionStorage, localStorage],
  keep(form, store = sessionStorage) {
    const fields = [...new FormData(form)].filter(([name]) => !["csrf", "to", "anyway"].includes(name));
    if (form.dataset.draft) store.setItem(this.name + form.dataset.draft, JSON.stringify(fields));
  },
  forget(form) {
    for (const store of this.stores) store.removeItem(this.name + form.dataset.draft);
  },
  restore(form) {
    const text = form.querySelector("textarea, [type=search]");
    const kept = this.stores.map((store) => store.getItem(this.name + form.dataset.draft)).find(Boolean);
    if (!kept || (text.value.trim() && !("id" in form.elements))) return;
    const fields = JSON.parse(kept);
    if (fields.some(([name, value]) => name === text.name && value === text.value)) return;
    for (const [name, value] of fields) {
      const field = form.elements[name] ?? form.appendChild(Object.assign(document.createElement("input"), { type: "hidden", name }));
      field.value = value;
    }
    changed = true;
    form.before(document.getElementById("restored").content.cloneNode(true));
  },
};
for (const form of document.querySelectorAll("form[data-draft]")) drafts.restore(form);
document.addEventListener("htmx:afterSettle", (event) => {
  const form = event.target.closest("section")?.querySelector("form[data-draft]"); // of a section that is edited in place
  if (form) drafts.restore(form);
});
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-draft]:has(textarea)");
  if (form) drafts.keep(form);
});
document.addEventListener("click", (event) => {
  const form = event.target.closest("a")?.closest("form[data-draft]");
  if (form) drafts.forget(form); // the link of a form is "Cancel"
});

// A form that changes something is sent from here, so that the page and what is typed stay when nobody answers.
document.addEventListener("submit", (event) => {
  const [form, button] = [event.target, event.submitter];
  const action = button?.getAttribute("formaction") ?? form.getAttribute("action");
  if (event.defaultPrevented || !action?.startsWith("/do/")) return;
  event.preventDefault();
  if (form.getAttribute("aria-busy") !== "true") send(form, button, action);
});

async function send(form, button, action) {
  const fields = new URLSearchParams(new FormData(form));
  if (button?.name) fields.append(button.name, button.value);
  document.querySelector(".unsent")?.remove();
  form.setAttribute("aria-busy", "true");
  try {
    const headers = { accept: "text/html", "x-spellbook": "1" };
    const answer = await fetch(action, { method: "POST", body: fields, headers, signal: AbortSignal.timeout(60_000) });
    const place = answer.headers.get("location");
    if (answer.redirected) { // to the login: this one has ended
      drafts.keep(form);
      changed = false;
      location.assign(`/login?to=${encodeURIComponent(location.pathname + location.search)}`);
    } else if (place) {
      drafts.forget(form);
      go(place);
      return; // the form stays busy until the page is another one
    } else if (answer.headers.get("content-type")?.startsWith("text/html") && answer.headers.has("x-spellbook-api")) {
      show(await answer.text());
    } else { // something between here and the server, or its guard
      const fault = await answer.json().catch(() => ({}));
      notSent(form, button, fault.error?.message);
    }
  } catch {
    notSent(form, button);
  }
  form.removeAttribute("aria-busy");
}

window.addEventListener("pageshow", () => document.querySelector("[aria-busy]")?.removeAttribute("aria-busy"));

function go(place) {
  const to = new URL(place, location.href);
  const isHere = to.pathname + to.search === location.pathname + location.search;
  location.assign(to);
  if (isHere && to.hash) location.reload();
}

// The answer to a form takes the place of the page's text; "Back" leads to the form again.
let answered = "";
function show(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  document.title = page.title;
  document.querySelector("main").replaceWith(page.querySelector("main"));
  htmx.process(document.querySelector("main"));
  history.pushState(null, "", location.href);
  answered = location.href;
  scrollTo(0, 0);
  document.querySelector("main [autofocus], main [role=alert]")?.focus();
}
window.addEventListener("popstate", () => { if (answered === location.href) location.reload(); });

function notSent(form, button, why = "") {
  const hasText = Boolean(form.dataset.draft);
  if (hasText) drafts.keep(form, localStorage);
  changed ||= hasText;
  const alert = document.getElementById("unsent").content.firstElementChild.cloneNode(true);
  alert.querySelector(hasText ? "[data-of=act]" : "[data-of=text]").remove();
  alert.querySelector("[data-why]").textContent = why;
  alert.querySelector("button").addEventListener("click", () => form.requestSubmit(button));
  document.body.append(alert);
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
