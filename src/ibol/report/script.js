"use strict";
// Draws curves and trajectories from the data in the page. No library, no network.

const data = JSON.parse(document.getElementById("data").textContent);
const FEW = 20; // points of a curve that are marked
const SIDE = 320; // of the pictures of trajectories and latents
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];

function svg(name, attributes = {}, parent = null) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

function html(name, parent, text = "", kind = "") {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  parent.append(node);
  return node;
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)} k`;
  return `${+value.toPrecision(3)}`;
}

// Round numbers that divide a range into about `count` parts.
function ticks(low, high, count = 4) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const gap = power * [1, 2, 5, 10].find((digit) => digit * power >= raw * 0.75);
  const marks = [];
  for (let i = Math.ceil(low / gap); i * gap <= high + 1e-9 * gap; i++) marks.push(i * gap);
  return marks;
}

// A drawing area with axes; `place` maps values to pixels.
function plot(parent, label, { width, height, x, y, xName, yName, left = 46, bottom = 38 }) {
  const area = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": label }, parent);
  const right = width - 14, top = 8, base = height - bottom;
  const place = (u, v) => [
    left + ((u - x[0]) / (x[1] - x[0])) * (right - left),
    base - ((v - y[0]) / (y[1] - y[0])) * (base - top),
  ];
  for (const value of ticks(...x)) {
    const [at] = place(value, y[0]);
    svg("line", { x1: at, x2: at, y1: top, y2: base, class: "rule" }, area);
    svg("text", { x: at, y: base + 15, "text-anchor": "middle" }, area).textContent = short(value);
  }
  for (const value of ticks(...y)) {
    const [, at] = place(x[0], value);
    svg("line", { x1: left, x2: right, y1: at, y2: at, class: "rule" }, area);
    svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, area).textContent = short(value);
  }
  svg("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, area).textContent = xName;
  const middle = (top + base) / 2;
  svg("text", { x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` }, area).textContent = yName;
  return { area, place };
}

function extremes(values, margin = 0.05) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  if (!(high > low)) { low -= 1; high += 1; }
  return [low - margin * (high - low), high + margin * (high - low)];
}

function line(points) { return points.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" "); }

function strokeOf(index) {
  return { stroke: data.runs[index].colour, "stroke-dasharray": DASHES[Math.floor(index / 8) % 4] };
}

function drawCurves() {
  const legend = document.getElementById("curve-legend"), figures = document.getElementById("curve-figures");
  data.runs.forEach((run, i) => {
    const item = html("span", legend);
    svg("line", { x1: 0, x2: 28, y1: 2, y2: 2, "stroke-width": 3, ...strokeOf(i) }, svg("svg", { "aria-hidden": true }, item));
    item.append(run.name);
  });
  for (const [metric, title] of Object.entries(data.curves)) {
    const runs = data.runs.map((run, i) => [run.curves[metric], i, run.name]).filter(([curve]) => curve);
    if (!runs.length) continue;
    const figure = html("figure", figures);
    html("h3", figure, title);
    const steps = runs.flatMap(([curve]) => curve[0]), values = runs.flatMap(([curve]) => curve[1]);
    // The first epochs may be far off: the axis shows what nearly all values need.
    const sorted = [...values].sort((a, b) => a - b), cut = Math.floor(0.02 * sorted.length);
    const shown = sorted.slice(cut, sorted.length - cut), middle = (shown[0] + shown.at(-1)) / 2;
    const half = 0.05 * Math.max(...shown.map(Math.abs)); // no axis shows less than a tenth of its numbers
    const y = extremes([...shown, middle - half, middle + half]);
    const { area, place } = plot(figure, `${title} of ${runs.map(([, , name]) => name).join(", ")}`, {
      width: 380, height: 240, x: [0, Math.max(...steps) || 1], y, xName: "environment steps", yName: "",
    });
    for (const [curve, i, name] of runs) {
      const points = curve[0].map((step, k) => place(step, Math.min(Math.max(curve[1][k], y[0]), y[1])));
      const drawn = svg("polyline", { points: line(points), class: "curve", ...strokeOf(i) }, area);
      svg("title", {}, drawn).textContent = `${name}: ${short(curve[1].at(-1))} at the end`;
      for (const [cx, cy] of points.length <= FEW ? points : points.slice(-1)) svg("circle", { cx, cy, r: 3, fill: data.runs[i].colour }, area);
    }
  }
}

// The places of a trajectory as pairs: x and y, or step and x.
function places(picture, i) {
  const flat = picture.paths[i].map((value) => value * picture.scale);
  if (picture.dims === 1) return flat.map((value, k) => [picture.steps[k], value]);
  return picture.steps.map((_, k) => [flat[2 * k], flat[2 * k + 1]]);
}

function limits(env, dims) {
  const all = data.runs.filter((run) => run.env === env).flatMap((run) => run.pictures).filter((picture) => picture.dims === dims);
  const points = all.flatMap((picture) => picture.paths.flatMap((_, i) => places(picture, i)));
  const x = extremes(points.map((p) => p[0]), dims === 1 ? 0 : 0.05), y = extremes(points.map((p) => p[1]));
  if (dims === 1) return { x, y };
  const reach = Math.max(x[1] - x[0], y[1] - y[0]) / 2, cx = (x[0] + x[1]) / 2, cy = (y[0] + y[1]) / 2;
  return { x: [cx - reach, cx + reach], y: [cy - reach, cy + reach] };
}

function describe(picture, i) {
  const path = places(picture, i), end = path.at(-1), start = path[0];
  const where = picture.dims === 1 ? `x = ${short(end[1])} m` : `(${short(end[0])}, ${short(end[1])}) m`;
  const far = picture.dims === 1 ? Math.abs(end[1] - start[1]) : Math.hypot(end[0] - start[0], end[1] - start[1]);
  const latent = picture.latents[i].length ? `${picture.sign} = (${picture.latents[i].join(", ")})` : `episode ${i + 1}`;
  return `${latent}: ends at ${where}, ${short(far)} m from its start; return ${short(picture.returns[i])}`;
}

function nearest(sets, x, y) {
  let best = -1, least = Infinity;
  sets.forEach((points, i) => points.forEach(([a, b]) => {
    const distance = (a - x) ** 2 + (b - y) ** 2;
    if (distance < least) { least = distance; best = i; }
  }));
  return best;
}

// One picture with its latents beside it; choosing in one shows in both.
function drawTrajectories(holder, run, picture) {
  holder.replaceChildren();
  const axes = limits(run.env, picture.dims);
  const names = picture.dims === 1 ? { xName: "environment step", yName: picture.axes[0] }
    : { xName: picture.axes[0], yName: picture.axes[1] };
  const label = `trajectories of ${run.name}, ${picture.title}`;
  const field = plot(holder, label, { width: SIDE, height: SIDE - 16, ...axes, ...names });
  const said = html("p", holder, "", "said");
  said.setAttribute("aria-live", "polite");
  const hint = `${picture.paths.length} trajectories`;
  said.textContent = hint;
  const lines = picture.paths.map((_, i) => places(picture, i).map((p) => field.place(...p)));
  const drawn = lines.map((points, i) =>
    svg("polyline", { points: line(points), class: "path", stroke: picture.colours[i] }, field.area));
  const end = svg("circle", { r: 5, class: "end", visibility: "hidden" }, field.area);
  const views = [[field, lines]];
  let dots = [];
  if (picture.latents[0].length) {
    const flat = picture.latents.map((z, i) => [z[0], z.length > 1 ? z[1] : places(picture, i).at(-1).at(-1)]);
    const one = picture.latents[0].length === 1;
    const z = extremes(flat.flat().concat([-1, 1]));
    const plane = plot(holder, `latents of ${run.name}, ${picture.title}`, {
      width: SIDE, height: SIDE - 16, x: z, y: one ? extremes(flat.map((p) => p[1])) : z,
      xName: one ? picture.sign : `${picture.sign}\u2081`, yName: one ? `end: ${picture.axes[0]}` : `${picture.sign}\u2082`,
    });
    const points = flat.map((p) => [plane.place(...p)]);
    dots = points.map(([[cx, cy]], i) => svg("circle", { cx, cy, r: 4.5, class: "dot", fill: picture.colours[i] }, plane.area));
    views.push([plane, points]);
    holder.append(said);
  }
  const order = picture.latents.map((z, i) => [z.length > 1 ? Math.atan2(z[1], z[0]) : z[0] ?? i, i])
    .sort((a, b) => a[0] - b[0]).map(([, i]) => i);
  let chosen = -1, kept = false;
  function choose(i) {
    for (const list of [drawn, dots]) {
      list[chosen]?.classList.remove("on");
      if (i >= 0 && list[i]) { list[i].classList.add("on"); if (list === drawn) end.before(list[i]); }
    }
    chosen = i;
    for (const [view] of views) view.area.classList.toggle("chosen", i >= 0);
    end.setAttribute("visibility", i >= 0 ? "visible" : "hidden");
    said.textContent = i >= 0 ? "" : hint;
    if (i < 0) return;
    const [cx, cy] = lines[i].at(-1);
    end.setAttribute("cx", cx); end.setAttribute("cy", cy); end.setAttribute("fill", picture.colours[i]);
    html("span", said, "", "swatch").style.background = picture.colours[i];
    said.append(describe(picture, i));
  }
  for (const [view, sets] of views) {
    const at = (event) => {
      const box = view.area.getBoundingClientRect(), unit = SIDE / box.width;
      return nearest(sets, (event.clientX - box.left) * unit, (event.clientY - box.top) * unit);
    };
    view.area.tabIndex = 0;
    view.area.addEventListener("pointermove", (event) => { if (!kept) choose(at(event)); });
    view.area.addEventListener("pointerleave", () => { if (!kept) choose(-1); });
    view.area.addEventListener("click", (event) => { kept = !kept; choose(at(event)); });
    view.area.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (event.key === "Escape") { kept = false; choose(-1); }
      if (!step) return;
      event.preventDefault();
      kept = true;
      choose(order[(order.indexOf(chosen) + step + order.length) % order.length] ?? order[0]);
    });
  }
}

function drawRuns() {
  const figures = document.getElementById("trajectory-figures");
  data.runs.forEach((run, number) => {
    if (!run.pictures.length) { html("p", figures, `${run.name} has no location of one or two dimensions to draw.`); return; }
    const figure = html("figure", figures);
    html("h3", figure, `${run.name} (${run.env})`);
    const choices = html("fieldset", figure, "", "choices"), holder = html("div", figure, "", "both");
    choices.setAttribute("aria-label", `what to show of ${run.name}`);
    run.pictures.forEach((picture, i) => {
      if (run.pictures.length < 2) return;
      const label = html("label", choices), box = document.createElement("input");
      Object.assign(box, { type: "radio", name: `picture-${number}`, checked: i === 0 });
      box.addEventListener("change", () => drawTrajectories(holder, run, picture));
      label.append(box, picture.title);
    });
    drawTrajectories(holder, run, run.pictures[0]);
  });
}

drawRuns();
drawCurves();
