"use strict";
/* What all pictures and charts share: the document, the time that is shown, colours, words. */

const report = JSON.parse(document.getElementById("document").textContent);
const LEFT = 66;
const RIGHT = 14;
const NAME_MAX = 100;

const view = {
  whole: Math.max(1, ...report.runs.map((run) => run.duration_ms)),
  min: 0,
  max: 1,
  drawn: [],

  show(min, max) {
    const least = Math.min(200, this.whole);
    const width = Math.min(Math.max(max - min, least), this.whole);
    this.min = Math.min(Math.max(min, 0), this.whole - width);
    this.max = this.min + width;
    this.drawn.forEach((each) => each.draw());
  },
  reset() {
    this.show(0, this.whole);
  },
  zoom(factor, at) {
    const middle = at === undefined ? (this.min + this.max) / 2 : at;
    this.show(middle - (middle - this.min) * factor, middle + (this.max - middle) * factor);
  },
  shift(share) {
    const by = (this.max - this.min) * share;
    this.show(this.min + by, this.max + by);
  },
  point(time, from) {
    this.drawn.forEach((each) => each !== from && each.point(time));
  },
};
view.max = view.whole;

/* A name as a client chose it: in full sight, and short. */
function shown(name) {
  const short = name.length > NAME_MAX ? name.slice(0, NAME_MAX) + "..." : name;
  return short.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (each) => "\\u{" + each.codePointAt(0).toString(16) + "}");
}

function make(tag, parent, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 120000) return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
  return Math.floor(ms / 60000) + " min " + Math.round((ms % 60000) / 1000) + " s";
}

function briefly(ms) {
  if (ms < 1000) return ms + " ms";
  return ms < 120000 ? ms / 1000 + " s" : Math.round(ms / 60000) + " min";
}

function clock(ms, step) {
  const hours = Math.floor(ms / 3600000);
  const minutes = Math.floor((ms % 3600000) / 60000);
  const seconds = (ms % 60000) / 1000;
  const digits = step < 1000 ? (step < 100 ? 2 : 1) : 0;
  const end = seconds.toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  return (hours ? hours + ":" + String(minutes).padStart(2, "0") : minutes) + ":" + end;
}

const TICKS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000,
  300000, 600000, 900000, 1800000, 3600000, 7200000, 14400000];

function ticks(width) {
  const wanted = Math.max(2, Math.floor(width / 80));
  const step = TICKS.find((each) => (view.max - view.min) / each <= wanted) || TICKS[TICKS.length - 1];
  const found = [];
  for (let at = Math.ceil(view.min / step) * step; at <= view.max; at += step) found.push(at);
  return { step, at: found };
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/* Neighbouring members get hues far apart, none of them red: that is for partitions without an owner.
   Thousands of members repeat the hues in other lightnesses. */
function tints(count) {
  const saturation = parseFloat(colour("tint-s"));
  const lightness = parseFloat(colour("tint-l"));
  const found = [];
  for (let each = 0; each < count; each += 1) {
    const tier = (Math.floor(each / 9) % 3) - 1;
    const hue = 25 + ((185 + each * 0.618034 * 300) % 300);
    found.push(`hsl(${hue.toFixed(1)}, ${saturation}%, ${lightness + tier * 6}%)`);
  }
  return found;
}

function marksOf(run, story) {
  return run.marks.filter((mark) => mark.group === null || mark.group === story.group);
}
