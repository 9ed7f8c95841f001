// The notes of the vault and their links on a canvas.
// d3-force lays them out in small steps between frames. Wheel, fingers, buttons and keys zoom and move; a click opens.
"use strict";

const canvas = document.getElementById("graph");
const context = canvas.getContext("2d");
const list = document.getElementById("graph-list");
const STEP_MS = 9;  // of a frame, for the layout; drawing needs the rest
const COLOURS = 8;
const MOST_LISTED = 50;
const MOST_LABELS = 60;  // of a picture of 600 by 570 points at a zoom of 1

let nodes = [], edges = [], beside = [], layout = null;
let width = 0, height = 0, view = { x: 0, y: 0, k: 1 }, isFitted = true;
let hovered = null, group = null, wanted = "", waiting = false, names = [];
let ink, soft, accent, paper, palette;

function readColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const colour = (name) => { probe.className = name; return getComputedStyle(probe).color; };
  [ink, soft, accent] = [colour(""), colour("soft"), colour("dot c-accent")];
  palette = Array.from({ length: COLOURS }, (_, at) => colour(`dot c${at + 1}`));
  probe.className = "dot c-paper";
  paper = getComputedStyle(probe).color;
  probe.remove();
}

function address(id) {
  const parts = id.split("/");
  const isPlain = !parts.some((part) => ["", ".", ".."].includes(part));
  return `/note/${isPlain ? parts.map(encodeURIComponent).join("/") : encodeURIComponent(id)}`;
}

const radius = (node) => Math.min(14, 2.5 + 1.4 * Math.sqrt(node.links || 0));
const isShown = (node) => (group === null || node.group === group) && (!wanted || node.folded.includes(wanted));
const label = (node) => node.title.length > 30 ? `${node.title.slice(0, 29)}…` : node.title;

// -- data

// Without letters that nobody sees: a label has no room to spell them out, as the note's page does.
const seen = (text) => text.replace(/[\p{Cc}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}]/gu, "");

function take(graph) {
  for (const note of graph.notes) for (const key of ["title", "topic", "category", "path"]) note[key] = seen(note[key]);
  nodes = graph.notes.map((note, number) => ({ ...note, number, folded: note.title.toLowerCase(), colour: -1, group: "" }));
  edges = graph.edges.map((edge) => ({ source: nodes[edge.from], target: nodes[edge.to] }));
  beside = nodes.map(() => new Set());
  for (const edge of edges) {
    beside[edge.source.number].add(edge.target);
    beside[edge.target.number].add(edge.source);
  }
  const by = document.getElementById("graph-by");
  by.value = new Set(nodes.map((node) => groupOf(node, "topic"))).size <= 12 ? "topic" : "folder";
  by.addEventListener("change", () => { paint(by.value); refresh(); });
  paint(by.value);
  place();
  layout = d3.forceSimulation(nodes).stop()
    .force("link", d3.forceLink(edges).distance(30))
    .force("charge", d3.forceManyBody().strength(-45).distanceMax(400).theta(1.1))
    .force("x", d3.forceX((node) => node.home[0]).strength(0.06))
    .force("y", d3.forceY((node) => node.home[1]).strength(0.072))
    .alphaDecay(0.04);
  settle();
}

function groupOf(node, by) {
  if (by === "topic") return node.topic || node.category || "";
  const parts = node.path.split("/");
  return parts.length > 1 ? parts[0] : "";
}

function paint(by) {
  const counts = new Map();
  for (const node of nodes) {
    node.group = groupOf(node, by);
    counts.set(node.group, (counts.get(node.group) || 0) + 1);
  }
  const largest = [...counts].filter(([name]) => name).sort((a, b) => b[1] - a[1]).slice(0, COLOURS);
  const place = new Map(largest.map(([name], at) => [name, at]));
  for (const node of nodes) {
    node.colour = place.has(node.group) ? place.get(node.group) : -1;
    if (node.colour < 0) node.group = "";
  }
  group = null;
  const rest = nodes.filter((node) => node.colour < 0).length;
  const rows = [...largest.map(([name, count], at) => [name, name, count, `c${at + 1}`])];
  if (rest) rows.push(["", canvas.dataset.other, rest, "soft"]);
  document.getElementById("graph-legend").replaceChildren(...rows.map(([key, name, count, colour]) => {
    const row = document.createElement("li"), button = document.createElement("button"), dot = document.createElement("span");
    button.type = "button";
    button.className = "quiet";
    button.setAttribute("aria-pressed", "false");
    dot.className = `dot ${colour}`;
    button.append(dot, ` ${name} `, Object.assign(document.createElement("span"), { className: "small", textContent: count }));
    button.addEventListener("click", () => {
      group = group === key ? null : key;
      for (const other of document.querySelectorAll("#graph-legend button")) other.setAttribute("aria-pressed", String(other === button && group !== null));
      refresh();
    });
    row.append(button);
    return row;
  }));
}

// Notes of one colour begin together and are drawn to one place, so that a topic is an island.
function place() {
  const counts = new Map(), colours = new Set(nodes.map((node) => node.colour)).size;
  for (const node of nodes) {
    const at = counts.get(node.colour) || 0;
    counts.set(node.colour, at + 1);
    const turn = (node.colour + 1) / colours * 2 * Math.PI, far = colours > 1 ? 12 * Math.sqrt(nodes.length) : 0;
    const angle = at * 2.39996, out = 9 * Math.sqrt(at + 0.5);  // as seeds in a sunflower
    node.home = [far * Math.cos(turn), far * Math.sin(turn)];
    node.x = node.home[0] + out * Math.cos(angle);
    node.y = node.home[1] + out * Math.sin(angle);
  }
}

function refresh() {
  const chosen = nodes.filter(isShown);
  list.replaceChildren(...chosen.slice(0, MOST_LISTED).map((node) => {
    const row = document.createElement("li"), link = document.createElement("a"), count = document.createElement("span");
    Object.assign(link, { href: address(node.id), textContent: node.title });
    link.dataset.note = node.number;
    Object.assign(count, { className: "small", textContent: node.links });
    row.append(link);
    if (node.untrusted) row.append(" ", Object.assign(document.createElement("span"), { className: "tag warn", textContent: canvas.dataset.outside }));
    row.append(" ", count);
    return row;
  }));
  ask();
}

// -- layout and drawing

function settle() {
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const step = () => {
    const begun = performance.now();
    do layout.tick(); while (layout.alpha() > layout.alphaMin() && performance.now() - begun < STEP_MS);
    const goesOn = layout.alpha() > layout.alphaMin() || layout.alphaTarget() > 0;
    if (isFitted && (!isStill || !goesOn)) fit();
    if (!isStill || !goesOn) draw();
    settle.goesOn = goesOn;
    if (goesOn) requestAnimationFrame(step);
    else canvas.dataset.settled = "yes";
  };
  if (!settle.goesOn) requestAnimationFrame(step);
  settle.goesOn = true;
}

function ask() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

function size() {
  const scale = window.devicePixelRatio || 1;
  [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [width * scale, height * scale];
}

function fit() {
  if (!nodes.length) return;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const node of nodes) {
    left = Math.min(left, node.x); right = Math.max(right, node.x);
    top = Math.min(top, node.y); bottom = Math.max(bottom, node.y);
  }
  const [side, end] = [24, 30];
  const k = Math.min(2, (width - 2 * side) / (right - left || 1), (height - 2 * end) / (bottom - top || 1));
  view = { k, x: width / 2 - k * (left + right) / 2, y: height / 2 - k * (top + bottom) / 2 };
}

const onScreen = (node) => [node.x * view.k + view.x, node.y * view.k + view.y];

function lines(chosen, colour, alpha, wide = 1) {
  context.strokeStyle = colour;
  context.globalAlpha = alpha;
  context.lineWidth = wide;
  context.beginPath();
  for (const edge of chosen) {
    context.moveTo(...onScreen(edge.source));
    context.lineTo(...onScreen(edge.target));
  }
  context.stroke();
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const isNarrowed = group !== null || wanted, around = hovered && beside[hovered.number];
  const isLit = (node) => hovered ? node === hovered || around.has(node) : !isNarrowed || isShown(node);
  const isDim = hovered || isNarrowed;
  lines(edges, soft, isDim ? 0.08 : 0.25);
  if (hovered) lines(edges.filter((edge) => edge.source === hovered || edge.target === hovered), accent, 0.9, 1.5);
  const grow = Math.max(0.5, Math.min(1.6, Math.sqrt(view.k)));
  const dots = new Map();
  for (const node of nodes) {
    const colour = node.colour < 0 ? soft : palette[node.colour];
    const key = `${isLit(node) ? 1 : 0}${colour}`;
    if (!dots.has(key)) dots.set(key, []);
    dots.get(key).push(node);
  }
  for (const [key, some] of [...dots].sort()) {
    context.globalAlpha = key[0] === "1" ? 1 : 0.15;
    context.fillStyle = key.slice(1);
    context.beginPath();
    for (const node of some) {
      const [x, y] = onScreen(node), wide = radius(node) * grow;
      context.moveTo(x + wide, y);
      context.arc(x, y, wide, 0, 2 * Math.PI);
    }
    context.fill();
  }
  write(isLit, isDim, grow);
}

// Names are placed the most important first; one that would lie on another name or on a larger point is left out.
function write(isLit, isDim, grow) {
  context.font = `12px ${getComputedStyle(document.documentElement).getPropertyValue("--sans")}`;
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 3;
  const taken = [];
  const isFree = (box) => !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
  const most = MOST_LABELS * Math.min(2, width * height / 342_000) * (hovered || isDim ? 1 : Math.max(0.4, view.k));
  const first = hovered ? [hovered, ...beside[hovered.number]] : [];
  const order = [...new Set([...first, ...nodes])];  // nodes come the most linked first
  names = [];
  for (const node of order) {
    if (names.length >= most) break;
    if (!node.links && !isDim && view.k < 1.2) break;  // notes without links say little from afar
    const [x, y] = onScreen(node);
    if (x < 0 || y < 0 || x > width || y > height || (isDim && !isLit(node))) continue;
    node.wide = node.wide || context.measureText(label(node)).width;
    const gap = radius(node) * grow + 9, half = node.wide / 2;
    const places = [[x, y + gap + 2], [x, y - gap - 2], [x + gap + half - 3, y], [x - gap - half + 3, y]];
    const fits = places.map(([a, b]) => [a - half - 2, b - 8, a + half + 2, b + 8])
      .find((box) => box[0] > 0 && box[2] < width && box[1] > 0 && box[3] < height && isFree(box));
    const [a, b] = places[0], forced = [a - half - 2, b - 8, a + half + 2, b + 8];
    const box = fits || (node === hovered ? forced : null);
    if (!box) continue;
    taken.push(box);
    names.push({ node, box });
    context.textAlign = "center";
    context.globalAlpha = 1;
    context.strokeStyle = paper;
    context.strokeText(label(node), (box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
    context.fillStyle = node === hovered ? accent : ink;
    context.fillText(label(node), (box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
  }
}

// -- moving

function zoom(times, x = width / 2, y = height / 2) {
  const k = Math.max(0.05, Math.min(8, view.k * times));
  view = { k, x: x - (x - view.x) * k / view.k, y: y - (y - view.y) * k / view.k };
  isFitted = false;
  ask();
}

function move(x, y) {
  view = { ...view, x: view.x + x, y: view.y + y };
  isFitted = false;
  ask();
}

const spot = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
const inside = ([x, y]) => [(x - view.x) / view.k, (y - view.y) / view.k];
const nearest = (event) => (layout && layout.find(...inside(spot(event)), 18 / view.k)) || null;

const fingers = new Map();
let held = null, moved = false;

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, spot(event));
  if (fingers.size === 1) [held, moved] = [nearest(event), false];
  else [held, moved] = [null, true];
});
canvas.addEventListener("pointermove", (event) => {
  const now = spot(event), before = fingers.get(event.pointerId);
  if (!before) {
    const under = nearest(event);
    if (under !== hovered) { hovered = under; canvas.style.cursor = under ? "pointer" : "grab"; ask(); }
    return;
  }
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const apart = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
    zoom(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  } else if (moved || Math.hypot(now[0] - before[0], now[1] - before[1]) > 4) {
    moved = true;
    if (held) {
      [held.fx, held.fy] = inside(now);
      isFitted = false;
      layout.alphaTarget(0.15).alpha(Math.max(layout.alpha(), 0.15));
      settle();
    } else move(now[0] - before[0], now[1] - before[1]);
  } else return;  // the finger may only have trembled
  fingers.set(event.pointerId, now);
});
const release = (event) => {
  if (!fingers.delete(event.pointerId) || !held || fingers.size) return;
  layout.alphaTarget(0);
  held.fx = held.fy = null;
  if (!moved && event.type === "pointerup") location.href = address(held.id);
  held = null;
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", () => { if (!fingers.size && hovered) { hovered = null; ask(); } });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(2 ** (-event.deltaY * (event.deltaMode ? 0.05 : event.ctrlKey ? 0.01 : 0.002)), ...spot(event));
}, { passive: false });

function showAll() {
  isFitted = true;
  fit();
  ask();
}

const keys = {
  "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), "0": showAll,
  ArrowLeft: () => move(50, 0), ArrowRight: () => move(-50, 0), ArrowUp: () => move(0, 50), ArrowDown: () => move(0, -50),
};
canvas.addEventListener("keydown", (event) => {
  if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  keys[event.key]();
});
for (const button of document.querySelectorAll("[data-zoom]"))
  button.addEventListener("click", { in: () => zoom(1.4), out: () => zoom(1 / 1.4), fit: showAll }[button.dataset.zoom]);

// The list beside the picture: what has the focus or the mouse there is lit here.
const point = (event) => {
  const link = event.target.closest("[data-note]");
  hovered = link ? nodes[link.dataset.note] : null;
  ask();
};
for (const name of ["mouseover", "focusin"]) list.addEventListener(name, point);
for (const name of ["mouseleave", "focusout"]) list.addEventListener(name, () => { hovered = null; ask(); });

window.addEventListener("resize", () => { size(); if (isFitted) fit(); ask(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); ask(); });

readColours();
size();
document.getElementById("graph-find").addEventListener("input", (event) => {
  wanted = event.target.value.trim().toLowerCase();
  refresh();
});
const count = document.getElementById("graph-count");
fetch("/api/graph/whole").then(async (answer) => {
  if (!answer.ok) throw new Error(answer.status);
  const graph = await answer.json();
  if (!graph.edges.length) {  // points without a line between them would say nothing
    document.getElementById("graph-empty").hidden = false;
    for (const each of document.querySelectorAll(".lead, .graphed")) each.remove();
    return;
  }
  take(graph);
  refresh();
  const values = [graph.notes.length, graph.total, graph.edges.length].map((each) => each.toLocaleString(document.documentElement.lang));
  count.textContent = count.dataset.said.replace(/\{(\d)\}/g, (_, at) => values[at]);
  canvas.dataset.ready = "yes";
}).catch(() => { count.textContent = count.dataset.failed; });
