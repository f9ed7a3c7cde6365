// Keeps a page up to date: fetches it again and changes only what differs, so that focus, selection
// and open sections are preserved.
"use strict";

const PERIOD_MS = 1000;
const POINTS = 60; // of a chart

const root = document.documentElement;
const button = document.getElementById("pause");
const state = document.getElementById("state");
const totals = new Map(); // the last value of each counter
const charts = new Map(); // the last values of each chart
let uptime = 0, paused = false, failures = 0, timer;

function merge(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  // Open sections stay as the reader left them.
  const kept = (name) => name === "open" && old.nodeName === "DETAILS";
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !kept(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !kept(name)) old.setAttribute(name, value);
  const [were, are] = [[...old.childNodes], [...fresh.childNodes]];
  were.slice(are.length).forEach((node) => node.remove());
  are.forEach((node, index) => (index < were.length ? merge(were[index], node) : old.append(node)));
}

/** Rates of counters and charts of values, which one reply cannot show. */
function enrich() {
  const now = Number(document.querySelector("main").dataset.uptime);
  const seconds = now - uptime;
  if (seconds < 0) [totals, charts].forEach((map) => map.clear());
  uptime = now;
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
  for (const rate of document.querySelectorAll("[data-rate]")) {
    const { rate: name, total } = rate.dataset;
    const before = totals.get(name);
    if (before !== undefined && seconds > 0) rate.textContent = `${number.format((total - before) / seconds)}/s`;
    totals.set(name, Number(total));
  }
  for (const chart of document.querySelectorAll("[data-chart]")) {
    const values = charts.get(chart.dataset.chart) ?? [];
    charts.set(chart.dataset.chart, values);
    values.push(Number(chart.dataset.value));
    if (values.length > POINTS) values.shift();
    const left = POINTS - values.length;
    const points = values.map((value, index) => `${left + index},${100 - value}`);
    const area = [`${left},101`, ...points, `${POINTS - 1},101`];
    chart.querySelector("polyline").setAttribute("points", area.join(" "));
  }
}

function tell(text) {
  // Screen readers announce each change.
  if (state.textContent !== text) state.textContent = text;
}

async function refresh() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  try {
    const reply = await fetch("lanes.html", { signal: AbortSignal.timeout(5000) });
    if (!reply.ok) throw new Error(String(reply.status));
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    if (!paused) {
      for (const part of ["#phase", "main"]) merge(document.querySelector(part), fresh.querySelector(part));
      enrich();
      failures = 0;
      tell("Live");
      root.classList.remove("stale");
    }
  } catch {
    failures += 1;
    if (failures === 3) {
      tell(`No reply since ${new Date().toLocaleTimeString()}`);
      root.classList.add("stale");
    }
  }
  timer = setTimeout(refresh, PERIOD_MS);
}

function toggle() {
  paused = !paused;
  button.textContent = paused ? "Resume" : "Pause";
  tell(paused ? `Paused at ${new Date().toLocaleTimeString()}` : "Live");
  refresh();
}

button.addEventListener("click", toggle);
document.addEventListener("visibilitychange", refresh);
document.addEventListener("keydown", (event) => {
  if (event.key === "p" && !event.ctrlKey && !event.altKey && !event.metaKey && !event.repeat) toggle();
});
root.classList.add("live");
button.hidden = false;
enrich();
tell("Live");
timer = setTimeout(refresh, PERIOD_MS);
