// What a page can do beyond plain links and forms: the running job, copying, and keys. Everything else works without.
"use strict";

const job = document.getElementById("job");

function follow() {
  const events = new EventSource("/api/events");
  events.addEventListener("job", (event) => {
    const change = JSON.parse(event.data);
    htmx.ajax("GET", "/job", { target: "#job", swap: "innerHTML" });
    job.hidden = false;
    if (change.state !== "running") {
      events.close();
      setTimeout(follow, 2000);
    }
  });
}

if (job) follow();

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent).then(() => {
    button.textContent = button.dataset.copied;
  });
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  const keyed = !typing && !event.metaKey && !event.ctrlKey && !event.altKey && event.key.length === 1
    && document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (keyed) {
    event.preventDefault();
    keyed.click();
  } else if (event.key === "/" && !typing && !event.metaKey && !event.ctrlKey) {
    event.preventDefault();
    const box = document.querySelector("input[type=search]");
    if (box) box.focus();
    else location.href = "/search";
  } else if (event.key === "Enter" && (event.metaKey || event.ctrlKey) && event.target.form) {
    event.target.form.requestSubmit();
  }
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
document.addEventListener("submit", (event) => {
  if (event.target.action.endsWith("/logout")) sessionStorage.removeItem("draft");
});

// The rest of the menu folds when one goes on elsewhere.
document.addEventListener("click", (event) => {
  const rest = document.querySelector(".menu .rest[open]");
  if (rest && !rest.contains(event.target)) rest.open = false;
});
