"use strict";
/* Charts over time of one group, drawn by uPlot; and the wiring of the page. */

const CHART_TALL = 120;

class Chart {
  constructor(figure, run, story, kind) {
    this.figure = figure;
    this.run = run;
    this.story = story;
    this.marks = marksOf(run, story);
    this.kind = CHARTS[kind];
    this.isPointing = false;
    this.make();
    new ResizeObserver(() => this.resize()).observe(figure);
  }

  make() {
    const { lines, scale, words } = this.kind;
    const all = lines(this.story.trends);
    const times = all.length ? all[0].values.map((_, index) => index * this.story.trends.step_ms) : [];
    times.push(this.run.duration_ms);
    const axis = { stroke: colour("soft"), font: "11px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 },
      ticks: { show: false } };
    const options = {
      width: Math.max(120, this.figure.clientWidth),
      height: CHART_TALL,
      padding: [8, RIGHT, 0, 0],
      scales: {
        x: { time: false, range: () => [view.min, view.max] },
        y: scale,
      },
      axes: [
        { ...axis, size: 26, gap: 6, splits: (plot) => ticks(plot.bbox.width / devicePixelRatio).at,
          values: (plot, splits) => splits.map((each) => clock(each, splits.length > 1 ? splits[1] - splits[0] : 1000)) },
        { ...axis, size: LEFT, gap: 6, space: 28, splits: this.kind.splits, filter: (plot, splits) => splits,
          values: (plot, splits) => splits.map((each) => words(each)) },
      ],
      series: [
        { label: "time", value: (plot, each) => (isNothing(each) ? "the whole run" : clock(each, 100)) },
        ...all.map((line) => ({
          label: line.label,
          stroke: colour(line.colour),
          width: line.width || 1.5,
          fill: line.isArea ? `rgba(${colour("shade")}, 0.2)` : undefined,
          paths: this.kind.isPoints ? () => null : this.kind.isLine ? undefined : uPlot.paths.stepped({ align: 1 }),
          points: { show: Boolean(this.kind.isPoints), size: line.size, fill: colour(line.colour), width: 0 },
          spanGaps: Boolean(this.kind.isLine),
          value: (plot, each, index, at) => (isNothing(at) ? this.most(line) : isNothing(each) ? "–" : words(each, true)),
        })),
      ],
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => view.reset() },
      },
      hooks: {
        drawClear: [(plot) => this.drawSpans(plot)],
        draw: [(plot) => this.drawMarks(plot)],
        setCursor: [(plot) => this.pointed(plot)],
        setSelect: [(plot) => this.selected(plot)],
      },
    };
    const data = [times, ...all.map((line) => [...line.values, line.values[line.values.length - 1]])];
    this.figure.replaceChildren();
    this.plot = new uPlot(options, data, this.figure);
    this.plot.root.setAttribute("role", "img");
    this.plot.root.setAttribute("aria-label", this.summary(all));
  }

  most(line) {
    const values = line.values.filter((each) => each !== null);
    return values.length ? `at most ${this.kind.words(Math.max(...values), true)}` : "none";
  }

  summary(all) {
    return `Chart over time. ${all.map((line) => `${line.label}: ${this.most(line)}`).join(", ")}.`;
  }

  drawSpans(plot) {
    const { left, top, width, height } = plot.bbox;
    const brush = plot.ctx;
    brush.save();
    brush.beginPath();
    brush.rect(left, top, width, height);
    brush.clip();
    brush.globalAlpha = 0.18;
    brush.fillStyle = colour("rebalance");
    for (const each of this.story.rebalances) {
      if (each.is_initial || each.ended_ms < view.min || each.began_ms > view.max) continue;
      const from = plot.valToPos(each.began_ms, "x", true);
      const to = plot.valToPos(each.ended_ms, "x", true);
      brush.fillRect(from, top, Math.max(1, to - from), height);
    }
    brush.restore();
  }

  drawMarks(plot) {
    const { left, top, width, height } = plot.bbox;
    const brush = plot.ctx;
    brush.save();
    brush.lineWidth = devicePixelRatio;
    brush.globalAlpha = 0.75;
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.at_ms, "x", true);
      if (x < left || x > left + width) continue;
      brush.strokeStyle = colour(mark.group === null ? "fault" : "behaviour");
      brush.beginPath();
      brush.moveTo(x, top);
      brush.lineTo(x, top + height);
      brush.stroke();
    }
    brush.restore();
  }

  pointed(plot) {
    const { left } = plot.cursor;
    view.point(left === null || left === undefined || left < 0 ? null : plot.posToVal(left, "x"), this);
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 5) return;
    const from = plot.posToVal(left, "x");
    const to = plot.posToVal(left + width, "x");
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    view.show(from, to);
  }

  point(time) {
    if (!this.plot) return;
    const isIn = time !== null && time >= view.min && time <= view.max;
    this.plot.setCursor({ left: isIn ? this.plot.valToPos(time, "x") : -10, top: isIn ? 0 : -10 }, false);
  }

  draw() {
    this.plot.setScale("x", { min: view.min, max: view.max });
  }

  resize() {
    const width = Math.max(120, this.figure.clientWidth);
    if (width !== this.plot.width) this.plot.setSize({ width, height: CHART_TALL });
  }

  restyle() {
    this.plot.destroy();
    this.make();
  }
}

function isNothing(value) {
  return value === null || value === undefined;
}

function count(value, isExact) {
  return value.toLocaleString("en-US", { maximumFractionDigits: value >= 100 ? 0 : isExact ? 2 : 1 });
}

/* The next 1, 2 or 5 with zeros, above or below a value. */
function round(value, way) {
  const power = 10 ** Math.floor(Math.log10(value));
  const all = [1, 2, 5, 10].map((each) => each * power);
  return way > 1 ? all.find((each) => each >= value) : all.reverse().find((each) => each <= value * way) || power / 2;
}

/* Axes of durations are logarithmic: at 1, 2, 5 and so on, or, over a wide range, at powers of ten. */
const DURATIONS = {
  words: (value, isExact) => (isExact ? duration(value) : briefly(value)),
  scale: { distr: 3, range: (plot, min, max) => [round(min || 1, 0.99), round((max || 1) * 1.01, 10)] },
  splits: (plot, axis, min, max) => {
    const found = [];
    for (let at = min; at <= max * 1.001; at = round(at * 1.01, 10)) found.push(at);
    return found.length <= 5 ? found : found.filter((each) => Math.abs(Math.log10(each) % 1) < 1e-9);
  },
};

const COUNTS_FROM_0 = { range: (plot, min, max) => [0, Math.max(1, max * 1.08)] };
function percentiles(measured) {
  return [
    { label: "longest", values: measured.max, colour: "second", width: 2.5, size: 9 },
    { label: "p99", values: measured.p99, colour: "first", size: 6 },
    { label: "p50", values: measured.p50, colour: "third", size: 4 },
  ];
}

const ERROR_COLOURS = ["second", "first", "rebalance", "third", "ink"];

const CHARTS = {
  members: {
    words: count,
    scale: COUNTS_FROM_0,
    lines: (trends) => [
      { label: "members without an assignment", values: trends.unavailable, colour: "first", isArea: true },
      { label: "partitions without an owner", values: trends.unowned, colour: "second" },
      { label: "members that run", values: trends.running, colour: "third" },
    ],
  },
  waits: { ...DURATIONS, isPoints: true, lines: (trends) => percentiles(trends.durations_ms.waits) },
  gaps: { ...DURATIONS, isLine: true, lines: (trends) => percentiles(trends.durations_ms.gaps) },
  requests: { ...DURATIONS, isLine: true, lines: (trends) => percentiles(trends.durations_ms.requests) },
  errors: {
    words: count,
    scale: COUNTS_FROM_0,
    lines: (trends) => Object.entries(trends.errors).map(([label, values], index) => (
      { label, values, colour: ERROR_COLOURS[index % ERROR_COLOURS.length] })),
  },
};

/* --- the page */

function restyle() {
  view.drawn.forEach((each) => (each.restyle ? each.restyle() : each.draw()));
}

function onPaper(isPaper) {
  document.documentElement.classList.toggle("paper", isPaper);
  for (const each of document.querySelectorAll("details")) {
    if (isPaper) each.dataset.was = each.open ? "open" : "";
    each.open = isPaper || each.dataset.was === "open";
  }
  restyle();
}

function save() {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(report, null, 1)], { type: "application/json" }));
  link.download = report.title.replace(/[^\w.-]+/g, "_").slice(0, 80) + ".json";
  link.click();
  URL.revokeObjectURL(link.href);
}

for (const figure of document.querySelectorAll("figure[data-run]")) {
  const run = report.runs[Number(figure.dataset.run)];
  const story = run.stories[Number(figure.dataset.story)];
  const { draws } = figure.dataset;
  view.drawn.push(draws === "ownership" ? new Picture(figure, run, story) : new Chart(figure, run, story, draws));
}
view.reset();

const TOOLS = {
  whole: () => view.reset(),
  in: () => view.zoom(0.5),
  out: () => view.zoom(2),
  back: () => view.shift(-0.5),
  on: () => view.shift(0.5),
  save,
};
for (const button of document.querySelectorAll("button[data-tool]")) {
  button.addEventListener("click", TOOLS[button.dataset.tool]);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
window.addEventListener("beforeprint", () => onPaper(true));
window.addEventListener("afterprint", () => onPaper(false));
document.documentElement.dataset.drawn = String(view.drawn.length);
