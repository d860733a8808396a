"use strict";
/* The picture of one group: marks, rebalances, and who owned which partition when. */

const LANE = 16;
const LANES_MAX = 4;
const STRIP = 12;
const AXIS = 20;

class Picture {
  constructor(figure, run, story) {
    this.figure = figure;
    this.run = run;
    this.story = story;
    this.marks = marksOf(run, story);
    this.rows = story.ownership.rows.length;
    this.at = { row: 0, time: 0 };
    this.pinned = null;
    this.pressed = null;
    this.canvas = make("canvas", figure);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label",
      `Ownership of the ${this.total()} partitions of ${shown(story.group)} over time. ` +
      "Arrow keys move, Enter shows the history of a partition, plus and minus zoom.");
    this.cross = make("div", figure, undefined, "cross");
    this.band = make("div", figure, undefined, "span");
    this.tip = make("div", figure, undefined, "tip");
    this.detail = make("div", undefined, undefined, "detail");
    figure.after(this.detail);
    this.detail.setAttribute("aria-live", "polite");
    this.hide();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  total() {
    return this.story.ownership.partitions.reduce((sum, range) => sum + range[2], 0);
  }

  hide() {
    for (const each of [this.cross, this.band, this.tip]) each.hidden = true;
  }

  /* --- drawing */

  measure() {
    this.width = this.figure.clientWidth;
    this.inner = Math.max(50, this.width - LEFT - RIGHT);
    this.lanes = this.placed();
    this.top = this.lanes.count * LANE + STRIP + 6;
    const fit = Math.max(1, Math.min(20, Math.floor(420 / Math.max(1, this.rows))));
    this.tall = this.rows > 420 ? Math.max(420, Math.min(this.rows, 1000)) / this.rows : fit;
    this.height = this.top + Math.ceil(this.rows * this.tall) + AXIS;
  }

  x(time) {
    return LEFT + ((time - view.min) / (view.max - view.min)) * this.inner;
  }

  timeAt(x) {
    return view.min + ((x - LEFT) / this.inner) * (view.max - view.min);
  }

  /* Give each mark a lane where its words touch no others; without a free lane it is a line only. */
  placed() {
    const brush = this.canvas.getContext("2d");
    brush.font = this.font(12);
    const ends = [];
    const lanes = [];
    for (const mark of this.marks) {
      const x = this.x(mark.at_ms);
      if (x < LEFT || x > LEFT + this.inner) continue;
      const words = shown(mark.text);
      const wide = brush.measureText(words).width + 16;
      const left = Math.min(x, this.width - wide);
      let lane = ends.findIndex((end) => end <= left);
      if (lane < 0 && ends.length < LANES_MAX) lane = ends.push(0) - 1;
      if (lane >= 0) ends[lane] = left + wide;
      lanes.push({ mark, x, left, lane, words });
    }
    return { count: Math.max(1, ends.length), lanes };
  }

  font(size, weight) {
    return `${weight || 400} ${size}px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
  }

  draw() {
    this.measure();
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = this.height + "px";
    const brush = this.canvas.getContext("2d");
    brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.tint = tints(this.story.ownership.owners.length);
    this.colours = Object.fromEntries(["ink", "soft", "line", "nobody", "before", "fault", "behaviour",
      "rebalance", "shade", "on-tint"].map((name) => [name, colour(name)]));
    brush.save();
    brush.beginPath();
    brush.rect(LEFT, 0, this.inner, this.height);
    brush.clip();
    this.story.ownership.rows.forEach((row, number) => FORMS[this.story.ownership.form](this, brush, row, number));
    this.drawRebalances(brush);
    brush.restore();
    this.drawMarks(brush);
    this.drawLabels(brush);
    this.drawTime(brush);
  }

  box(brush, fill, from, to, number) {
    if (to < view.min || from > view.max) return false;
    const left = this.x(from);
    const y = this.top + number * this.tall;
    brush.fillStyle = fill;
    brush.fillRect(left, y, Math.max(1, this.x(to) - left), this.tall > 4 ? this.tall - 1 : this.tall + 0.3);
    return true;
  }

  drawRebalances(brush) {
    brush.fillStyle = this.colours.rebalance;
    const y = this.top - STRIP - 1;
    for (const each of this.story.rebalances) {
      if (each.ended_ms < view.min || each.began_ms > view.max) continue;
      brush.globalAlpha = each.is_initial ? 0.45 : 1;
      const left = this.x(each.began_ms);
      brush.fillRect(left, y, Math.max(2, this.x(each.ended_ms) - left), STRIP - 3);
    }
    brush.globalAlpha = 1;
  }

  drawMarks(brush) {
    brush.font = this.font(12);
    brush.textBaseline = "middle";
    for (const { mark, x, left, lane, words } of this.lanes.lanes) {
      brush.fillStyle = brush.strokeStyle = this.colours[mark.group === null ? "fault" : "behaviour"];
      brush.globalAlpha = 0.75;
      brush.beginPath();
      brush.moveTo(x, lane < 0 ? this.top - STRIP : lane * LANE + LANE / 2);
      brush.lineTo(x, this.height - AXIS);
      brush.stroke();
      brush.globalAlpha = 1;
      if (lane < 0) continue;
      const y = lane * LANE + LANE / 2;
      brush.beginPath();
      if (mark.group === null) {
        brush.moveTo(x, y + 5);
        brush.lineTo(x - 5, y - 4);
        brush.lineTo(x + 5, y - 4);
      } else {
        brush.arc(x, y, 4, 0, 7);
      }
      brush.fill();
      brush.fillText(words, left < x ? left : x + 8, y);
    }
  }

  drawLabels(brush) {
    brush.fillStyle = this.colours.soft;
    brush.textAlign = "right";
    brush.textBaseline = "middle";
    brush.font = this.font(11);
    brush.fillText("rebalances", LEFT - 6, this.top - STRIP / 2 - 2);
    const every = Math.max(1, Math.ceil(14 / this.tall));
    for (let number = 0; number < this.rows; number += every) {
      brush.fillText(this.fitted(brush, this.partition(number * this.story.ownership.band)), LEFT - 6,
        Math.max(this.top + 6, this.top + (number + 0.5) * this.tall));
    }
    brush.textAlign = "left";
  }

  /* The end of a name says which partition it is, so the beginning is cut. */
  fitted(brush, text) {
    let short = text;
    while (short.length > 4 && brush.measureText(short).width > LEFT - 10) short = "…" + short.slice(2);
    return short;
  }

  drawTime(brush) {
    const { step, at } = ticks(this.inner);
    const y = this.height - AXIS;
    brush.strokeStyle = this.colours.line;
    brush.beginPath();
    brush.moveTo(LEFT, y + 0.5);
    brush.lineTo(LEFT + this.inner, y + 0.5);
    for (const each of at) {
      brush.moveTo(this.x(each), y);
      brush.lineTo(this.x(each), y + 4);
    }
    brush.stroke();
    brush.fillStyle = this.colours.soft;
    brush.textAlign = "center";
    for (const each of at) brush.fillText(clock(each, step), this.x(each), y + 12);
    brush.textAlign = "left";
  }

  /* --- what is where */

  label(number) {
    const { band } = this.story.ownership;
    const first = this.partition(number * band);
    if (band === 1) return first;
    return `${first} … ${this.partition(Math.min((number + 1) * band, this.total()) - 1)}`;
  }

  partition(index) {
    let left = index;
    for (const [topic, first, count] of this.story.ownership.partitions) {
      if (left < count) return shown(topic) + "-" + (first + left);
      left -= count;
    }
    return "";
  }

  /* The stretches of a row: from, to, and words for what was then. */
  stretches(number) {
    return STRETCHES[this.story.ownership.form](this, this.story.ownership.rows[number] || []);
  }

  told(number, time) {
    const found = this.stretches(number).find((each) => time >= each.from && time < each.to);
    if (!found) return this.label(number) + "\n" + clock(time, 100);
    return `${this.label(number)}\n${found.what}\n` +
      `${clock(found.from, 100)} – ${clock(found.to, 100)} (${duration(found.to - found.from)})`;
  }

  /* --- mouse and keyboard */

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerleave", () => this.left());
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button === 0) this.pressed = this.timeAt(event.offsetX);
    });
    window.addEventListener("pointerup", (event) => this.released(event));
    canvas.addEventListener("dblclick", () => view.reset());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.left());
  }

  left() {
    this.hide();
    view.point(null, this);
  }

  moved(event) {
    const time = this.timeAt(event.offsetX);
    if (this.pressed !== null) {
      const from = Math.max(LEFT, Math.min(this.x(this.pressed), event.offsetX));
      const to = Math.min(LEFT + this.inner, Math.max(this.x(this.pressed), event.offsetX));
      this.band.style.left = from + "px";
      this.band.style.width = Math.max(0, to - from) + "px";
      this.band.hidden = false;
    }
    this.look(time, event.offsetY);
  }

  released(event) {
    if (this.pressed === null) return;
    const from = this.pressed;
    this.pressed = null;
    this.band.hidden = true;
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const to = this.timeAt(Math.max(LEFT, Math.min(LEFT + this.inner, x)));
    if (Math.abs(this.x(to) - this.x(from)) > 5) view.show(Math.min(from, to), Math.max(from, to));
    else if (event.target === this.canvas) this.pin();
  }

  look(time, y) {
    if (time < view.min || time > view.max) return this.left();
    this.at.time = time;
    let words;
    if (y < this.top) {
      words = this.above(time, y);
    } else {
      this.at.row = Math.min(this.rows - 1, Math.floor((y - this.top) / this.tall));
      words = this.rows ? this.told(this.at.row, time) : "";
    }
    this.say(words, time, y);
    view.point(time, this);
    return undefined;
  }

  above(time, y) {
    const near = (view.max - view.min) * (6 / this.inner);
    if (y < this.top - STRIP - 2) {
      const marks = this.marks.filter((mark) => Math.abs(mark.at_ms - time) < near * 2);
      return marks.map((mark) => `${clock(mark.at_ms, 100)}  ${shown(mark.text)}`).join("\n") || clock(time, 100);
    }
    const found = this.story.rebalances.filter((each) => time > each.began_ms - near && time < each.ended_ms + near);
    return found.slice(0, 4).map((each) =>
      `generation ${each.generation}, ${clock(each.began_ms, 100)}, took ${duration(each.ended_ms - each.began_ms)}\n` +
      shown(each.cause)).join("\n") || clock(time, 100);
  }

  say(words, time, y) {
    const x = this.x(time);
    this.cross.hidden = this.tip.hidden = false;
    this.cross.style.left = x + "px";
    this.tip.textContent = words;
    const isRight = x > this.width * 0.6;
    this.tip.style.left = isRight ? "" : x + 14 + "px";
    this.tip.style.right = isRight ? this.width - x + 14 + "px" : "";
    this.tip.style.top = Math.max(0, y - 12) + "px";
  }

  point(time) {
    this.tip.hidden = true;
    this.cross.hidden = time === null || time < view.min || time > view.max;
    this.cross.style.left = this.x(time) + "px";
  }

  key(event) {
    const keys = {
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      ArrowDown: () => this.row(1),
      ArrowUp: () => this.row(-1),
      Enter: () => this.pin(),
      Escape: () => (this.pinned === null ? view.reset() : this.unpin()),
      "+": () => view.zoom(0.5, this.at.time),
      "-": () => view.zoom(2, this.at.time),
      Home: () => view.reset(),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  }

  step(way) {
    const all = this.stretches(this.at.row);
    let index = all.findIndex((each) => this.at.time >= each.from && this.at.time < each.to);
    index = Math.max(0, Math.min(all.length - 1, index + way));
    if (all.length) this.at.time = (all[index].from + all[index].to) / 2;
    this.go();
  }

  row(way) {
    this.at.row = Math.max(0, Math.min(this.rows - 1, this.at.row + way));
    this.go();
  }

  go() {
    if (this.at.time < view.min || this.at.time > view.max) {
      const half = (view.max - view.min) / 2;
      view.show(this.at.time - half, this.at.time + half);
    }
    this.look(this.at.time, this.top + (this.at.row + 0.5) * this.tall);
    this.canvas.setAttribute("aria-description", this.tip.textContent);
  }

  /* --- drill-down */

  pin() {
    const all = this.stretches(this.at.row);
    const here = all.find((each) => this.at.time >= each.from && this.at.time < each.to);
    this.pinned = here && here.owner !== undefined ? here.owner : -1;
    this.detail.replaceChildren();
    make("h4", this.detail, `${this.label(this.at.row)}: ${all.length} stretches`);
    const table = make("table", this.detail);
    const head = make("tr", make("thead", table));
    for (const word of ["", "from", "to", "lasted"]) make("th", head, word);
    const body = make("tbody", table);
    for (const each of all.slice(0, 200)) {
      const line = make("tr", body);
      const cell = make("td", line);
      const swatch = make("span", cell, undefined, "swatch");
      swatch.style.background = each.owner === undefined ? each.fill || "none" : this.tint[each.owner];
      make("span", cell, each.what, "name");
      for (const time of [each.from, each.to]) make("td", line, clock(time, 100));
      make("td", line, duration(each.to - each.from));
    }
    make("button", this.detail, "Close").addEventListener("click", () => this.unpin());
    this.draw();
  }

  unpin() {
    this.pinned = null;
    this.detail.replaceChildren();
    this.canvas.focus();
    this.draw();
  }
}

function drawOwners(picture, brush, row, number) {
  const { pinned, colours, tall } = picture;
  let at = 0;
  for (let index = 0; index < row.length; index += 3) {
    const from = at + row[index];
    const to = from + row[index + 1];
    const owner = row[index + 2];
    brush.globalAlpha = pinned !== null && pinned >= 0 && pinned !== owner ? 0.2 : 1;
    if (picture.box(brush, picture.tint[owner], from, to, number) && tall >= 12) {
      named(picture, brush, owner, from, to, number);
    }
    brush.globalAlpha = 1;
    if (from > at) picture.box(brush, index ? colours.nobody : colours.before, at, from, number);
    at = to;
  }
  if (at < picture.run.duration_ms) {
    picture.box(brush, row.length ? colours.nobody : colours.before, at, picture.run.duration_ms, number);
  }
}

/* Write the owner's name into its stretch where there is room. */
function named(picture, brush, owner, from, to, number) {
  const left = Math.max(LEFT, picture.x(from)) + 4;
  const wide = Math.min(LEFT + picture.inner, picture.x(to)) - left - 4;
  if (wide < 40) return;
  brush.font = picture.font(Math.min(11, picture.tall - 3));
  const name = shown(picture.story.ownership.owners[owner]);
  const size = brush.measureText(name).width;
  if (size > wide) return;
  brush.fillStyle = picture.colours["on-tint"];
  brush.textBaseline = "middle";
  brush.fillText(name, left, picture.top + (number + 0.5) * picture.tall);
}

function drawCounts(picture, brush, row, number) {
  let at = 0;
  for (let index = 0; index < row.length; index += 2) {
    picture.box(brush, countFill(picture, row[index + 1]), at, at + row[index], number);
    at += row[index];
  }
}

function countFill(picture, owners) {
  if (!owners) return picture.colours.nobody;
  return `rgba(${picture.colours.shade}, ${Math.min(1, 0.25 + 0.15 * owners)})`;
}

function drawBands(picture, brush, row, number) {
  const { step_ms: step } = picture.story.ownership;
  let at = 0;
  for (let index = 0; index < row.length; index += 4) {
    const to = Math.min(at + row[index] * step, picture.run.duration_ms);
    const [before, unowned, changes] = row.slice(index + 1, index + 4);
    picture.box(brush, bandFill(picture, changes), at, to, number);
    for (const [share, fill] of [[before, "before"], [unowned, "nobody"]]) {
      if (!share) continue;
      brush.globalAlpha = 0.2 + 0.8 * (share / 1000);
      picture.box(brush, picture.colours[fill], at, to, number);
      brush.globalAlpha = 1;
    }
    at = to;
  }
}

function bandFill(picture, changes) {
  const { band } = picture.story.ownership;
  return `rgba(${picture.colours.shade}, ${changes ? 0.4 + 0.6 * Math.min(1, changes / band) : 0.18})`;
}

const FORMS = { owners: drawOwners, counts: drawCounts, bands: drawBands };

const STRETCHES = {
  owners(picture, row) {
    const found = [];
    let at = 0;
    for (let index = 0; index < row.length; index += 3) {
      const from = at + row[index];
      if (from > at) {
        const what = index ? "nobody" : "nobody yet";
        found.push({ from: at, to: from, what, fill: picture.colours[index ? "nobody" : "before"] });
      }
      at = from + row[index + 1];
      const owner = row[index + 2];
      found.push({ from, to: at, owner, what: shown(picture.story.ownership.owners[owner]) });
    }
    if (at < picture.run.duration_ms) {
      found.push({ from: at, to: picture.run.duration_ms, what: "nobody", fill: picture.colours.nobody });
    }
    return found;
  },
  counts(picture, row) {
    const found = [];
    let at = 0;
    for (let index = 0; index < row.length; index += 2) {
      const fill = countFill(picture, row[index + 1]);
      found.push({ from: at, to: at + row[index], what: row[index + 1] + " members", fill });
      at += row[index];
    }
    return found;
  },
  bands(picture, row) {
    const { step_ms: step } = picture.story.ownership;
    const found = [];
    let at = 0;
    for (let index = 0; index < row.length; index += 4) {
      const to = Math.min(at + row[index] * step, picture.run.duration_ms);
      const [before, unowned, changes] = row.slice(index + 1, index + 4);
      const what = `${unowned / 10} % without an owner, ${before ? `${before / 10} % not yet assigned, ` : ""}` +
        `${changes} changes of owner in each ${duration(step)}`;
      found.push({ from: at, to, what, fill: bandFill(picture, changes) });
      at = to;
    }
    return found;
  },
};
