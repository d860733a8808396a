"use strict";
/* Keeps a page up to date: a stream of events has the sections that changed, and points of charts. */

const CHARTS = {
  rebalances: { column: 1, label: "per minute" },
  rebalancing: { column: 2, label: "groups" },
};
const POINTS_MAX = 600;
const TYPING_MS = 300;

const main = document.querySelector("main");
const live = document.getElementById("live");
const problem = document.getElementById("problem");
const points = [[], [], []];
const charts = [];
let stream = null;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function replaceSection(id, text) {
  const section = document.getElementById(id);
  if (!section) return;
  const open = [...section.querySelectorAll("details[open]")].map((each) => each.id);
  const scrolled = [...section.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const inside = section.contains(document.activeElement) ? document.activeElement : null;
  const focused = inside && [...section.querySelectorAll("a, summary, [tabindex]")].indexOf(inside);
  const href = inside && inside.getAttribute("href");
  section.innerHTML = text;
  for (const each of open) document.getElementById(each)?.setAttribute("open", "");
  section.querySelectorAll(".scroll").forEach((each, at) => {
    if (scrolled[at]) [each.scrollLeft, each.scrollTop] = scrolled[at];
  });
  if (inside) {
    const all = [...section.querySelectorAll("a, summary, [tabindex]")];
    const same = href === null ? null : all.find((each) => each.getAttribute("href") === href);
    (same || all[focused] || main).focus({ preventScroll: true });
  }
}

function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.kind = CHARTS[figure.dataset.chart];
    this.make();
    new ResizeObserver(() => this.resize()).observe(figure);
  }

  data() {
    return [points[0], points[this.kind.column]];
  }

  make() {
    const axis = {
      stroke: colour("soft"), font: "11px system-ui, sans-serif",
      grid: { stroke: colour("line"), width: 1 }, ticks: { show: false },
    };
    const series = {
      label: this.kind.label, stroke: colour("first"), width: 2, fill: colour("area"),
      points: { show: false }, value: (plot, each) => (each === null || each === undefined ? "–" : `${each}`),
    };
    this.figure.replaceChildren();
    this.plot = new uPlot({
      width: Math.max(120, this.figure.clientWidth), height: 130, padding: [8, 8, 0, 0],
      scales: { x: { time: true }, y: { range: (plot, low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
      axes: [
        { ...axis, size: 24, values: (plot, splits) => splits.map(clock) },
        { ...axis, size: 44, space: 26 },
      ],
      series: [{ label: "time", value: (plot, each) => (each ? clock(each) : "–") }, series],
      cursor: { y: false, drag: { x: false, y: false } },
      legend: { live: true },
    }, this.data(), this.figure);
    this.plot.root.setAttribute("role", "img");
    this.say();
  }

  resize() {
    const width = Math.max(120, this.figure.clientWidth);
    if (width !== this.plot.width) this.plot.setSize({ width, height: 130 });
  }

  say() {
    const values = points[this.kind.column];
    const last = values.length ? values[values.length - 1] : "nothing";
    this.plot.root.setAttribute("aria-label", `Chart over time, ${this.kind.label}: now ${last}.`);
  }

  draw() {
    this.plot.setData(this.data());
    this.say();
  }
}

function addPoints(news) {
  for (const each of news) {
    if (points[0].length && each[0] <= points[0][points[0].length - 1]) continue;
    points.forEach((column, at) => column.push(each[at]));
  }
  for (const column of points) column.splice(0, Math.max(0, column.length - POINTS_MAX));
  for (const chart of charts) chart.draw();
}

function take(event) {
  const news = JSON.parse(event.data);
  for (const [id, text] of Object.entries(news.sections || {})) replaceSection(id, text);
  if (news.points) addPoints(news.points);
  if (news.problem !== undefined) {
    problem.hidden = !news.problem;
    problem.textContent = news.problem;
  }
  document.documentElement.dataset.updates = 1 + Number(document.documentElement.dataset.updates || 0);
}

function connect(address) {
  if (stream) stream.close();
  stream = new EventSource(address);
  stream.onopen = () => { live.textContent = "● live"; };
  stream.onmessage = take;
  stream.onerror = () => { live.textContent = stream.readyState === EventSource.CLOSED ? "not live: reload" : "○ connecting"; };
}

function wireFilter(form) {
  let timer = 0;
  const apply = () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const before = new URLSearchParams(location.search);
    for (const name of ["sort", "order"]) if (before.get(name)) query.set(name, before.get(name));
    history.replaceState(null, "", `/?${query}`);
    connect(`/events?page=groups&${without(query, "page")}`);
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  form.addEventListener("change", apply);
  form.addEventListener("input", (event) => {
    if (event.target.type !== "search") return;
    clearTimeout(timer);
    timer = setTimeout(apply, TYPING_MS);
  });
  document.addEventListener("keydown", (event) => {
    const typed = event.target.closest("input, select, textarea");
    if (event.key === "/" && !typed && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      form.elements.q.focus();
    }
    if (event.key === "Escape" && typed === form.elements.q) main.focus();
  });
}

function without(query, name) {
  const rest = new URLSearchParams(query);
  rest.delete(name);
  return rest;
}

if (main.dataset.events) {
  document.querySelectorAll("[data-chart]").forEach((figure) => charts.push(new Chart(figure)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((each) => each.make()));
  const form = document.getElementById("filter");
  if (form) wireFilter(form);
  connect(main.dataset.events);
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => { if (event.persisted) connect(main.dataset.events); });
}
