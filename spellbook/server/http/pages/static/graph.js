// The notes around a note: a canvas that is laid out by d3-force, and moved with the mouse or a finger.
"use strict";

const canvas = document.getElementById("graph");
const graph = JSON.parse(canvas.dataset.graph);
const context = canvas.getContext("2d");
const style = getComputedStyle(document.documentElement);
const probe = document.createElement("span");
document.body.append(probe);
const colour = (name) => {
  probe.className = name;
  return getComputedStyle(probe).color;
};
const ink = colour(""), soft = colour("soft"), accent = getComputedStyle(document.querySelector("a")).color;
probe.remove();

const nodes = graph.notes.map((note, number) => ({ ...note, number }));
const edges = graph.edges.map((edge) => ({ source: edge.from, target: edge.to, kind: edge.kind }));
let width, height, held = null, moved = false;

function fit() {
  const scale = window.devicePixelRatio || 1;
  width = canvas.clientWidth;
  height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  context.setTransform(scale, 0, 0, scale, 0, 0);
}

function draw() {
  context.clearRect(0, 0, width, height);
  context.save();
  context.translate(width / 2, height / 2);
  context.lineWidth = 1;
  for (const edge of edges) {
    context.strokeStyle = soft;
    context.globalAlpha = edge.kind === "link" ? 0.5 : edge.kind === "related" ? 0.2 : 0.9;
    context.setLineDash(edge.kind === "related" ? [3, 4] : []);
    context.beginPath();
    context.moveTo(edge.source.x, edge.source.y);
    context.lineTo(edge.target.x, edge.target.y);
    context.stroke();
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
  context.font = `12px ${style.getPropertyValue("--sans")}`;
  context.textAlign = "center";
  for (const node of nodes) {
    context.fillStyle = node.number === 0 ? accent : soft;
    context.beginPath();
    context.arc(node.x, node.y, node.number === 0 ? 8 : 5, 0, 2 * Math.PI);
    context.fill();
    context.fillStyle = ink;
    const title = node.title.length > 28 ? `${node.title.slice(0, 27)}…` : node.title;
    context.fillText(title, node.x, node.y + 20);
  }
  context.restore();
}

fit();
const layout = d3.forceSimulation(nodes)
  .force("link", d3.forceLink(edges).distance(90))
  .force("charge", d3.forceManyBody().strength(-260))
  .force("x", d3.forceX().strength(0.06))
  .force("y", d3.forceY().strength(0.09))
  .force("apart", d3.forceCollide(26))
  .on("tick", () => {
    for (const node of nodes) {  // every note stays in the picture
      node.x = Math.max(-width / 2 + 60, Math.min(width / 2 - 60, node.x));
      node.y = Math.max(-height / 2 + 14, Math.min(height / 2 - 26, node.y));
    }
    draw();
  });

const at = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left - width / 2, event.clientY - box.top - height / 2];
};
canvas.addEventListener("pointerdown", (event) => {
  held = layout.find(...at(event), 24) || null;
  moved = false;
  if (held) canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  canvas.style.cursor = layout.find(...at(event), 24) ? "pointer" : "default";
  if (!held) return;
  moved = true;
  [held.fx, held.fy] = at(event);
  layout.alphaTarget(0.2).restart();
});
canvas.addEventListener("pointerup", () => {
  if (!held) return;
  layout.alphaTarget(0);
  if (!moved) location.href = held.address;
  held.fx = held.fy = null;
  held = null;
});
window.addEventListener("resize", () => { fit(); draw(); });
canvas.dataset.ready = "yes";
