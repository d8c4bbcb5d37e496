// Draws every chart of the report: lines, bars and surfaces as SVG, from the JSON beside each.
// No network, no library. A failure is left in the document (data-errors) for the test to find.
"use strict";
(() => {
  const root = document.documentElement;
  const errors = [];
  const fail = (what) => { errors.push(String(what)); root.dataset.errors = errors.join("\n"); };
  addEventListener("error", (event) => fail(event.message));

  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, parent, text) => {
    const node = document.createElementNS(SVG, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  };
  const html = (name, cls, parent, text) => {
    const node = document.createElement(name);
    if (cls) node.className = cls;
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  };

  // ---- numbers ----
  const number = (v) => {
    if (v === 0) return "0";
    const a = Math.abs(v);
    if (a >= 1e9) return trim(v / 1e9) + " G";
    if (a >= 1e7) return trim(v / 1e6) + " M";
    if (a >= 1e4) return Number(v.toPrecision(3)).toLocaleString("en");
    if (a < 1e-3) return v.toExponential(1);
    return trim(v);
  };
  // Beside ticks there is less room.
  const brief = (v) => {
    if (v >= 1e4 && v < 1e6) return trim(v / 1e3) + " k";
    return v >= 1e6 && v < 1e7 ? trim(v / 1e6) + " M" : number(v);
  };
  const trim = (v) => String(Number(v.toPrecision(3)));
  const bytes = (v) => {
    if (v >= 1 << 20 && Number.isInteger(v / (1 << 20))) return v / (1 << 20) + " Mi";
    if (v >= 4096 && Number.isInteger(v / 1024)) return v / 1024 + " Ki";
    return v >= 1e5 ? number(v) : String(Math.round(v));
  };
  const along = (axis) => (axis.unit === "bytes" ? bytes : number);
  const withUnit = (v, axis) => along(axis)(v) + (axis.unit ? " " + axis.unit : "");
  const named = (axis) => (axis.unit ? `${axis.label} (${axis.unit})` : axis.label);

  const stepOf = (span, count) => {
    const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
    for (const m of [1, 2, 5, 10]) if (m * power >= rough * 0.999) return m * power;
    return 10 * power;
  };
  // A scale from values to places; `zero`: linear scales of values begin there.
  const scale = (axis, values, from, to, zero) => {
    let low = Math.min(...values), high = Math.max(...values);
    if (axis.logarithmic) {
      low = Math.max(low, high * 1e-12, 1e-12); high = Math.max(high, low);
      const base = axis.unit === "bytes" ? 2 : 10;
      let a = Math.log(low) / Math.log(base), b = Math.log(high) / Math.log(base);
      // Bars on an axis of factors begin somewhere: well below the least, so that all can be seen.
      if (zero === "bars") { a -= 0.3; b += 0.1; } else if (zero) { a -= 0.04 * (b - a) + 0.02; b += 0.04 * (b - a) + 0.02; }
      if (b - a < 1e-9) { a -= 0.5; b += 0.5; }
      const place = (v) => from + ((Math.log(Math.max(v, 1e-300)) / Math.log(base) - a) / (b - a)) * (to - from);
      let ticks = [];
      if (base === 10 && b - a < 2.2) {
        for (let e = Math.floor(a); e <= Math.ceil(b); e++)
          for (const m of b - a < 0.75 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : [1, 2, 5]) ticks.push(m * 10 ** e);
      } else {
        const every = Math.max(1, Math.ceil((b - a) / 8));
        for (let e = Math.ceil(a - 1e-9); e <= b + 1e-9; e += every) ticks.push(base ** e);
      }
      ticks = ticks.filter((t) => t >= base ** a * 0.999 && t <= base ** b * 1.001);
      return { place, ticks };
    }
    if (zero && low > 0) low = 0;
    if (high <= low) high = low + 1;
    const step = stepOf(high - low, 6);
    if (zero) high = Math.ceil(high / step - 0.02) * step;
    const ticks = [];
    for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-6; t += step)
      ticks.push(Math.abs(t) < step * 1e-6 ? 0 : t);
    return { place: (v) => from + ((v - low) / (high - low)) * (to - from), ticks };
  };

  // ---- what answers to the pointer ----
  const tip = html("div", "tip", document.body);
  const show = (event, spec, mark) => {
    tip.replaceChildren();
    const p = mark.point;
    html("b", "", tip, mark.series.name + (mark.series.paper ? " · paper" : ""));
    const x = spec.x ? withUnit(p.x, spec.x) + (spec.x.unit ? "" : " " + spec.x.label) : p.x;
    html("div", "", tip, x + (spec.y ? `, ${withUnit(p.y, spec.y)} ${spec.y.unit ? "" : spec.y.label}` : ""));
    html("div", "v", tip, withUnit(p.v, spec.value) || "");
    if (p.low !== undefined && p.high !== undefined)
      html("div", "dim", tip, `quartiles ${number(p.low)} – ${number(p.high)}`);
    tip.style.display = "block";
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - w - 8) + "px";
    tip.style.top = Math.max(8, event.clientY - h - 12) + "px";
  };
  const hide = () => { tip.style.display = "none"; };
  // The nearest mark, in the picture's own units.
  const listen = (svg, spec, marks, ring) => {
    const at = (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
      let best = null, least = 60 * 60;
      for (const mark of marks()) {
        const dx = mark.box ? Math.max(mark.box[0] - p.x, 0, p.x - mark.box[2]) : mark.px - p.x;
        const dy = mark.box ? Math.max(mark.box[1] - p.y, 0, p.y - mark.box[3]) : mark.py - p.y;
        const d = dx * dx + dy * dy;
        if (d < least) { least = d; best = mark; }
      }
      if (!best) { ring.setAttribute("visibility", "hidden"); hide(); return; }
      ring.setAttribute("visibility", "visible");
      ring.setAttribute("cx", best.px); ring.setAttribute("cy", best.py);
      show(event, spec, best);
    };
    svg.addEventListener("pointermove", at);
    svg.addEventListener("pointerdown", at);
    svg.addEventListener("pointerleave", () => { ring.setAttribute("visibility", "hidden"); hide(); });
  };
  const ringIn = (svg) => make("circle", { r: 6, class: "ring", visibility: "hidden" }, svg);
  const colour = (series) => `var(--c${series.colour % 8})`;

  // Where few places were measured, far enough apart to be written, they are the ticks.
  const places = (spec, x) => {
    const xs = [...new Set(spec.xs)].sort((a, b) => a - b);
    const apart = (ticks) => ticks.every((v, i) => !i || x.place(v) - x.place(ticks[i - 1]) > 8 * along(spec.x)(v).length + 6);
    if (xs.length > 1 && apart(xs)) return xs;
    // A narrow picture has room for every second or every third tick only.
    let every = 1;
    const some = () => x.ticks.filter((_, i) => i % every === 0);
    while (every < 8 && !apart(some())) every += 1;
    return some();
  };
  // Where both are alike.
  const isRatio = (axis) => !axis.unit && axis.label.includes("÷");

  // ---- lines ----
  const lines = (svg, spec, panel) => {
    const W = panel.wide, H = 330, left = 62, right = 24, top = 12, bottom = 46;
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const all = panel.series.flatMap((s) => s.points);
    const x = scale(spec.x, spec.xs, left, W - right, false);
    // A spread far beyond all values is cut off: it would flatten them.
    const most = 1.2 * Math.max(...all.map((p) => p.v));
    const within = (v) => Math.min(v, most);
    const y = scale(spec.value, all.flatMap((p) => [p.v, p.low ?? p.v, within(p.high ?? p.v)]), H - bottom, top, true);
    for (const t of y.ticks) {
      make("line", { x1: left, x2: W - right, y1: y.place(t), y2: y.place(t), class: "grid" }, svg);
      make("text", { x: left - 7, y: y.place(t) + 4, class: "tick", "text-anchor": "end" }, svg, brief(t));
    }
    if (isRatio(spec.value) && y.place(1) > top && y.place(1) < H - bottom)
      make("line", { x1: left, x2: W - right, y1: y.place(1), y2: y.place(1), class: "even" }, svg);
    for (const t of places(spec, x)) {
      make("line", { x1: x.place(t), x2: x.place(t), y1: H - bottom, y2: H - bottom + 4, class: "axis" }, svg);
      make("text", { x: x.place(t), y: H - bottom + 18, class: "tick", "text-anchor": "middle" }, svg, along(spec.x)(t));
    }
    make("line", { x1: left, x2: W - right, y1: H - bottom, y2: H - bottom, class: "axis" }, svg);
    make("text", { x: (left + W - right) / 2, y: H - 8, class: "name", "text-anchor": "middle" }, svg, named(spec.x));
    make("text", { transform: `translate(14 ${(top + H - bottom) / 2}) rotate(-90)`, class: "name", "text-anchor": "middle" }, svg, named(spec.value));
    const marks = [];
    for (const series of panel.series) {
      const line = series.points.slice().sort((a, b) => a.x - b.x);
      const path = line.map((p, i) => `${i ? "L" : "M"}${x.place(p.x).toFixed(1)} ${y.place(p.v).toFixed(1)}`).join("");
      make("path", { d: path, class: series.paper ? "line paper" : "line", stroke: colour(series) }, svg);
      const dense = line.length > 20;
      for (const p of line) {
        const px = x.place(p.x), py = y.place(p.v);
        if (p.low !== undefined && p.high > p.low)
          make("line", { x1: px, x2: px, y1: y.place(p.low), y2: y.place(within(p.high)), stroke: colour(series), class: "spread" }, svg);
        if (!dense || series.paper) {
          if (series.paper) make("rect", { x: px - 4, y: py - 4, width: 8, height: 8, class: "dot", stroke: colour(series) }, svg);
          else make("circle", { cx: px, cy: py, r: 3.2, fill: colour(series) }, svg);
        }
        marks.push({ px, py, point: p, series });
      }
    }
    listen(svg, spec, () => marks, ringIn(svg));
    return marks;
  };

  // ---- bars ----
  const wrap = (text, most) => {
    const rows = [""];
    for (const word of text.split(" ")) {
      const last = rows[rows.length - 1];
      if (last && last.length + word.length + 1 > most) rows.push(word);
      else rows[rows.length - 1] = last ? last + " " + word : word;
    }
    return rows;
  };
  const bars = (svg, spec, panel) => {
    const W = panel.wide, left = W < 460 ? 116 : 176, right = W < 460 ? 48 : 62, top = 6, bottom = 44;
    const names = [...new Set(panel.series.flatMap((s) => s.points.map((p) => p.x)))];
    const thick = 13, gap = 2;
    const groups = names.map((name) => {
      const bars = panel.series.flatMap((s) => s.points.filter((p) => p.x === name).map((p) => ({ series: s, point: p })));
      const rows = wrap(name, W < 460 ? 17 : 26);
      return { rows, bars, tall: Math.max(bars.length * (thick + gap), rows.length * 14) + 12 };
    });
    const H = top + bottom + groups.reduce((sum, g) => sum + g.tall, 0);
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const all = panel.series.flatMap((s) => s.points);
    const v = scale(spec.value, all.flatMap((p) => [p.v, p.high ?? p.v]), left, W - right, "bars");
    const every = W < 460 && v.ticks.length > 5 ? 2 : 1;
    for (const t of v.ticks.filter((_, i) => i % every === 0)) {
      make("line", { x1: v.place(t), x2: v.place(t), y1: top, y2: H - bottom, class: "grid" }, svg);
      make("text", { x: v.place(t), y: H - bottom + 16, class: "tick", "text-anchor": "middle" }, svg, brief(t));
    }
    make("text", { x: (left + W - right) / 2, y: H - 8, class: "name", "text-anchor": "middle" }, svg, named(spec.value));
    const marks = [];
    let at = top;
    for (const group of groups) {
      const middle = at + group.tall / 2;
      group.rows.forEach((row, i) => make("text", { x: left - 8, y: middle + 4 + (i - (group.rows.length - 1) / 2) * 14, class: "tick", "text-anchor": "end" }, svg, row));
      let y = middle - (group.bars.length * (thick + gap) - gap) / 2;
      for (const { series, point } of group.bars) {
        // Bars of differences begin at zero and reach to the left where the value is negative.
        const zero = spec.value.logarithmic ? left : v.place(0);
        const px = point.v < 0 ? Math.min(v.place(point.v), zero - 1) : Math.max(v.place(point.v), zero + 1);
        const from = Math.min(px, zero);
        make("rect", { x: from, y, width: Math.abs(px - zero), height: thick, rx: 1.5, fill: colour(series), stroke: colour(series), class: series.paper ? "bar paper" : "bar" }, svg);
        let end = Math.max(px, zero);
        if (point.low !== undefined && point.high > point.low) {
          const x2 = v.place(point.high);
          make("line", { x1: Math.max(v.place(point.low), left), x2, y1: y + thick / 2, y2: y + thick / 2, class: "whisker" }, svg);
          end = Math.max(end, x2);
        }
        make("text", { x: end + 5, y: y + thick - 2.5, class: "value" }, svg, number(point.v));
        marks.push({ px, py: y + thick / 2, box: [from, y - 1, Math.max(px, zero), y + thick + 1], point, series });
        y += thick + gap;
      }
      at += group.tall;
    }
    const base = spec.value.logarithmic ? left : v.place(0);
    make("line", { x1: base, x2: base, y1: top, y2: H - bottom, class: "axis" }, svg);
    if (isRatio(spec.value) && v.place(1) > left && v.place(1) < W - right)
      svg.prepend(make("line", { x1: v.place(1), x2: v.place(1), y1: top, y2: H - bottom, class: "even" }));
    listen(svg, spec, () => marks, ringIn(svg));
    return marks;
  };

  // ---- surfaces ----
  const surface = (svg, spec, panel) => {
    const W = panel.wide, H = 420, S = W < 460 ? 0.47 * W : 262;
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.classList.add("turns");
    const all = panel.series.flatMap((s) => s.points);
    const range = (values) => { const a = Math.min(...values), b = Math.max(...values); return [a, b > a ? b : a + 1]; };
    const steps = (values) => [...new Set(values)].sort((a, b) => a - b);
    const xs = steps(all.map((p) => p.x)), ys = steps(all.map((p) => p.y));
    // Steps of the grid have one width: sizes double, and states are counted.
    const unitX = (v) => xs.indexOf(v) / Math.max(1, xs.length - 1) - 0.5;
    const unitY = (v) => ys.indexOf(v) / Math.max(1, ys.length - 1) - 0.5;
    const high = range(all.map((p) => p.v))[1];
    const level = scale(spec.value, [0, high], 0, 0.78, true);
    let yaw = -0.75, pitch = 0.5;
    let marks = [];
    const project = (x, y, z) => {
      const a = x * Math.cos(yaw) - y * Math.sin(yaw), b = x * Math.sin(yaw) + y * Math.cos(yaw);
      return [W / 2 + a * S, H / 2 + 66 + b * Math.sin(pitch) * S - z * Math.cos(pitch) * S, b * Math.cos(pitch) + z * Math.sin(pitch)];
    };
    const draw = () => {
      svg.replaceChildren();
      marks = [];
      const line = (p, q, cls) => make("line", { x1: p[0], y1: p[1], x2: q[0], y2: q[1], class: cls }, svg);
      // The floor, the walls behind, and the edges that look at the reader.
      const front = (v) => (project(0, v, 0)[2] > project(0, -v, 0)[2] ? v : -v);
      const side = (v) => (project(v, 0, 0)[2] > project(-v, 0, 0)[2] ? v : -v);
      const fy = front(0.5), fx = side(0.5);
      for (const t of level.ticks) {
        const z = level.place(t);
        line(project(-0.5, -fy, z), project(0.5, -fy, z), "grid");
        line(project(-fx, -0.5, z), project(-fx, 0.5, z), "grid");
        const corner = project(-fx, fy, z)[0] < project(fx, -fy, z)[0] ? project(-fx, fy, z) : project(fx, -fy, z);
        // The floor's own numbers stand below.
        make("text", { x: corner[0] - (z ? 8 : 16), y: corner[1] + (z ? 4 : -3), class: "tick", "text-anchor": "end" }, svg, brief(t));
      }
      const few = (list) => list.filter((_, i) => i % Math.ceil(list.length / 9) === 0);
      // Numbers and names stand outside of their edge, on whichever side that is.
      const beside = (p, words, cls) => {
        const anchor = p[0] > W / 2 + 30 ? "start" : p[0] < W / 2 - 30 ? "end" : "middle";
        // No name leaves the picture.
        const wide = words.length * 6.9;
        const x = anchor === "start" ? Math.min(p[0], W - wide) : anchor === "end" ? Math.max(p[0], wide) : p[0];
        make("text", { x, y: p[1] + (cls === "name" ? 14 : 5), class: cls, "text-anchor": anchor }, svg, words);
      };
      for (const v of few(xs)) beside(project(unitX(v), fy * 1.1, 0), along(spec.x)(v), "tick");
      for (const v of few(ys)) beside(project(fx * 1.1, unitY(v), 0), along(spec.y)(v), "tick");
      for (const e of [[[-0.5, fy], [0.5, fy]], [[fx, -0.5], [fx, 0.5]]]) line(project(...e[0], 0), project(...e[1], 0), "axis");
      beside(project(0, fy * 1.46, 0), named(spec.x), "name");
      beside(project(fx * 1.46, 0, 0), named(spec.y), "name");
      make("text", { x: 8, y: 16, class: "name" }, svg, named(spec.value));
      const faces = [];
      for (const series of panel.series) {
        const grid = new Map(series.points.map((p) => [p.x + "/" + p.y, p]));
        for (let i = 0; i < xs.length; i++) for (let j = 0; j < ys.length; j++) {
          const p = grid.get(xs[i] + "/" + ys[j]);
          if (!p) continue;
          const [px, py, depth] = project(unitX(p.x), unitY(p.y), level.place(p.v));
          marks.push({ px, py, depth, point: p, series });
          const others = [grid.get(xs[i + 1] + "/" + ys[j]), grid.get(xs[i + 1] + "/" + ys[j + 1]), grid.get(xs[i] + "/" + ys[j + 1])];
          if (others.some((q) => !q)) continue;
          const corners = [p, ...others].map((q) => project(unitX(q.x), unitY(q.y), level.place(q.v)));
          // Of ratios, what lies above 1 has the second colour.
          const above = isRatio(spec.value) && [p, ...others].reduce((sum, q) => sum + q.v, 0) > 4;
          const paint = above ? "var(--c1)" : colour(series);
          faces.push({ corners, depth: corners.reduce((sum, c) => sum + c[2], 0), series, paint });
        }
      }
      faces.sort((a, b) => a.depth - b.depth);
      for (const f of faces) make("polygon", { points: f.corners.map((c) => c[0].toFixed(1) + "," + c[1].toFixed(1)).join(" "), fill: f.paint, stroke: f.paint, class: f.series.paper ? "face paper" : "face" }, svg);
      ring = ringIn(svg);
    };
    let ring = ringIn(svg), held = null;
    const target = { setAttribute: (name, value) => ring.setAttribute(name, value) };
    svg.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY, yaw, pitch]; svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointerup", () => { held = null; });
    svg.addEventListener("pointercancel", () => { held = null; });
    svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      yaw = held[2] + (event.clientX - held[0]) * 0.01;
      pitch = Math.min(1.4, Math.max(0.12, held[3] + (event.clientY - held[1]) * 0.008));
      draw();
    });
    draw();
    listen(svg, spec, () => marks, target);
    return marks;
  };

  const kinds = { lines, bars, surface };
  // A picture is drawn for the width of its box, between 320 and 560 units, so that its text keeps its size on a narrow screen.
  const wide = (box) => Math.round(Math.min(560, Math.max(320, box.clientWidth || 560)));
  const redraw = [];
  const chart = (figure) => {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    if (spec.kind === "lines") spec.xs = spec.panels.flatMap((panel) => panel.series.flatMap((s) => s.points.map((p) => p.x)));
    // A series of the legend is hidden and shown by a click; what is left has the axis for itself.
    const hidden = new Set();
    const keyOf = (series) => series.name + series.paper;
    const legend = html("div", "legend", null);
    const row = html("div", "panels", null);
    const draw = () => {
      for (const panel of spec.panels) {
        const shown = panel.series.filter((series) => !hidden.has(keyOf(series)));
        const svg = make("svg", { role: "img", "aria-label": figure.querySelector("figcaption").textContent });
        if (panel.svg) panel.svg.replaceWith(svg);
        else panel.box.appendChild(svg);
        panel.svg = svg;
        if (!shown.length) continue;
        const marks = kinds[spec.kind](svg, spec, { ...panel, series: shown, wide: wide(panel.box) });
        svg.dataset.marks = marks.length;
        const bad = svg.outerHTML.match(/NaN|Infinity|undefined/);
        if (bad || !marks.length) throw new Error(`${figure.id}: ${bad ? bad[0] : "no marks"}`);
      }
    };
    const keys = new Map();
    for (const panel of spec.panels) for (const series of panel.series) keys.set(keyOf(series), series);
    for (const [key, series] of keys) {
      const item = html("button", "key", legend);
      item.type = "button";
      item.title = "hide or show";
      item.setAttribute("aria-pressed", "true");
      const swatch = make("svg", { viewBox: "0 0 22 12", class: "swatch" }, item);
      if (spec.kind === "lines") {
        make("line", { x1: 0, x2: 22, y1: 6, y2: 6, stroke: colour(series), class: series.paper ? "line paper" : "line" }, swatch);
      } else {
        make("rect", { x: 1, y: 1, width: 20, height: 10, fill: colour(series), stroke: colour(series), class: series.paper ? "bar paper" : "bar" }, swatch);
      }
      item.append(series.name + (series.paper && spec.panels.length === 1 ? " (paper)" : ""));
      item.addEventListener("click", () => {
        if (hidden.has(key)) hidden.delete(key);
        else if (hidden.size + 1 < keys.size) hidden.add(key);
        item.setAttribute("aria-pressed", String(!hidden.has(key)));
        hide();
        draw();
      });
    }
    figure.querySelector("figcaption").after(legend);
    legend.after(row);
    for (const panel of spec.panels) {
      panel.box = html("div", "panel", row);
      if (panel.title) html("div", "whose", panel.box, panel.title);
    }
    draw();
    redraw.push(draw);
    figure.dataset.drawn = "yes";
  };

  // ---- pages ----
  const pages = [...document.querySelectorAll("section.page")];
  const turn = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    const here = document.getElementById(name);
    const page = (here && here.closest("section.page")) || pages[0];
    for (const p of pages) p.classList.toggle("here", p === page);
    for (const a of document.querySelectorAll("nav a")) a.classList.toggle("here", a.hash === "#" + page.id);
    hide();
    // The boxes of a page that was hidden had no width when their pictures were drawn.
    if (root.dataset.ready) redraw.forEach((draw) => draw());
    if (here && here !== page) here.scrollIntoView(); else scrollTo(0, 0);
  };
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    redraw.forEach((draw) => draw());
  });
  const light = document.getElementById("light");
  light.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  if (/[?&]dark/.test(location.search)) root.dataset.theme = "dark";
  root.classList.add("script");
  for (const figure of document.querySelectorAll("figure.chart")) {
    try { chart(figure); } catch (error) { fail(`${figure.id}: ${error.message}`); }
  }
  addEventListener("hashchange", turn);
  turn();
  redraw.forEach((draw) => draw());
  root.dataset.ready = "yes";
})();
