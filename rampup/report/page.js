"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.getElementById("tip");

  // Small helpers: text is only ever set as text, never as markup.
  function html(name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function svg(name, attributes, text) {
    const node = document.createElementNS(SVG, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  const isNumber = (value) => typeof value === "number";

  // Numbers
  function brief(value) {
    const size = Math.abs(value);
    const cut = (number) => String(Number(number.toPrecision(6)));
    if (size >= 1e9) return cut(value / 1e9) + "B";
    if (size >= 1e6) return cut(value / 1e6) + "M";
    if (size >= 1e4) return cut(value / 1e3) + "k";
    return cut(value);
  }
  function exact(value) {
    return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
  }
  function ticks(low, high, wanted) {
    const rough = (high - low) / Math.max(wanted, 1);
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return found;
  }
  // Value of a curve at x, on the straight line between its neighbours; nothing outside it or beside a gap.
  function valueAt(xs, ys, x) {
    if (!ys || x < xs[0] || x > xs[xs.length - 1]) return null;
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    if (x === xs[low]) return ys[low];
    if (!isNumber(ys[low]) || !isNumber(ys[high])) return null;
    const part = xs[high] === xs[low] ? 0 : (x - xs[low]) / (xs[high] - xs[low]);
    return ys[low] + part * (ys[high] - ys[low]);
  }

  function swatch(series) {
    const node = html("span", "swatch " + series.look);
    node.style.setProperty("--ink", series.ink);
    return node;
  }
  function showTip(x, y, title, rows) {
    tip.replaceChildren(html("b", "", title));
    for (const row of rows) {
      const line = html("div");
      if (row.series) line.append(swatch(row.series));
      line.append(html("span", "", row.name), html("span", "number", row.text));
      tip.append(line);
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 18 + box.width > innerWidth ? x - 18 - box.width : x + 18;
    tip.style.left = Math.max(8, Math.min(left, innerWidth - box.width - 8)) + "px";
    tip.style.top = Math.max(8, Math.min(y - box.height - 14, innerHeight - box.height - 8)) + "px";
  }
  function hideTip() { tip.hidden = true; }

  // A chart of lines. `view` is shared by charts that zoom and point together: {domain, whole, hidden, at, charts}.
  class Chart {
    constructor(parent, view, given) {
      this.view = view;
      this.given = given;
      this.node = html("div", "chart");
      this.node.dataset.chart = given.name;
      if (given.title) {
        const head = html("h4", "", given.title);
        if (given.note) head.append(html("span", "", given.note));
        this.node.append(head);
      }
      this.root = svg("svg", { tabindex: 0, role: "img", "aria-label": given.aria });
      this.node.append(this.root);
      parent.append(this.node);
      view.charts.push(this);
      this.listen();
      new ResizeObserver(() => this.draw()).observe(this.node);
    }

    visible() {
      return this.given.series.filter((series) => !this.view.hidden.has(series.name));
    }

    // The y axis fits what is visible in the window, and the levels.
    range() {
      if (this.given.range) return this.given.range;
      const [from, to] = this.view.domain;
      const seen = this.given.levels.map((level) => level.value);
      for (const series of this.visible()) {
        for (const ys of [series.mean, series.low, series.high]) {
          if (!ys) continue;
          series.x.forEach((x, i) => { if (x >= from && x <= to && isNumber(ys[i])) seen.push(ys[i]); });
          for (const edge of [from, to]) {
            const value = valueAt(series.x, ys, edge);
            if (isNumber(value)) seen.push(value);
          }
        }
      }
      if (!seen.length) return [0, 1];
      let low = seen.reduce((a, b) => Math.min(a, b)), high = seen.reduce((a, b) => Math.max(a, b));
      const room = (high - low || Math.abs(high) || 1) * 0.06;
      low = this.given.floor === undefined ? low - room : Math.min(this.given.floor, low);
      return [low, high + room];
    }

    draw() {
      const width = Math.max(this.node.clientWidth, 200), height = this.given.height(width);
      const [bottom, top] = this.range(), [from, to] = this.view.domain;
      const yTicks = ticks(bottom, top, height / 55), labels = yTicks.map(brief);
      const left = 16 + 7 * Math.max(...labels.map((label) => label.length), 2);
      // Words on a threshold or on the highest level stand above the plot, where no line passes.
      const hasWords = this.given.threshold || this.given.levels.length;
      const box = { left, right: width - 14, top: hasWords ? 26 : 12, bottom: height - 40 };
      this.box = box;
      this.toX = (x) => box.left + (x - from) / (to - from) * (box.right - box.left);
      this.toY = (y) => box.bottom - (y - bottom) / (top - bottom) * (box.bottom - box.top);
      this.fromX = (px) => from + (px - box.left) / (box.right - box.left) * (to - from);
      this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.root.replaceChildren();
      this.drawAxes(yTicks, labels, ticks(from, to, width / 95), height);
      this.drawSeries();
      this.drawLevels();
      this.front = svg("g", {});
      this.root.append(this.front);
      this.drawCross();
    }

    drawAxes(yTicks, yLabels, xTicks, height) {
      const { box } = this;
      yTicks.forEach((y, i) => {
        const at = this.toY(y);
        this.root.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }));
        this.root.append(svg("text", { x: box.left - 8, y: at + 4, "text-anchor": "end" }, yLabels[i]));
      });
      for (const x of xTicks) {
        const text = brief(x), at = Math.min(this.toX(x), box.right + 12 - 3.4 * text.length);
        this.root.append(svg("text", { x: at, y: box.bottom + 18, "text-anchor": "middle" }, text));
      }
      const middle = (box.left + box.right) / 2;
      this.root.append(svg("text", { x: middle, y: height - 4, "text-anchor": "middle" }, this.given.xLabel));
    }

    drawLevels() {
      const { box } = this, order = [...this.given.levels].sort((a, b) => b.value - a.value);
      order.forEach((level, i) => {
        const at = this.toY(level.value);
        this.root.append(svg("line", { class: level.kind + "-line", x1: box.left, x2: box.right, y1: at, y2: at }));
        const below = i > 0 && at - this.toY(order[i - 1].value) < 22;
        const label = level.label + " " + exact(level.value);
        this.root.append(svg("text", { x: box.left + 8, y: at + (below ? 15 : -6), "data-level": level.kind }, label));
      });
      if (!this.given.threshold) return;
      const at = this.toX(this.given.threshold.x);
      this.root.append(svg("line", { class: "threshold-line", x1: at, x2: at, y1: box.top, y2: box.bottom }));
      const middle = Math.max(box.left + 50, Math.min(at, box.right - 50));
      this.root.append(svg("text", { x: middle, y: 15, "text-anchor": "middle" }, this.given.threshold.label));
    }

    drawSeries() {
      const { box } = this, id = "clip-" + (Chart.count = (Chart.count || 0) + 1);
      const clip = svg("clipPath", { id });
      clip.append(svg("rect", { x: box.left, y: box.top - 4, width: box.right - box.left, height: box.bottom - box.top + 8 }));
      const layer = svg("g", { "clip-path": `url(#${id})` });
      for (const series of this.visible()) {
        const style = `--ink: ${series.ink}`;
        if (series.low) layer.append(svg("path", { class: "band", style, d: this.bandPath(series) }));
        const line = svg("path", { class: "mean " + series.look, style, d: this.linePath(series.x, series.mean) });
        line.setAttribute("data-series", series.name);
        layer.append(line);
      }
      this.root.append(clip, layer);
    }

    linePath(xs, ys) {
      let path = "", pen = false;
      xs.forEach((x, i) => {
        if (!isNumber(ys[i])) { pen = false; return; }
        path += `${pen ? "L" : "M"}${this.toX(x).toFixed(1)} ${this.toY(ys[i]).toFixed(1)}`;
        pen = true;
      });
      return path;
    }

    bandPath(series) {
      const kept = series.x.map((_, i) => i).filter((i) => isNumber(series.low[i]) && isNumber(series.high[i]));
      const point = (i, ys) => `${this.toX(series.x[i]).toFixed(1)} ${this.toY(ys[i]).toFixed(1)}`;
      const there = kept.map((i) => point(i, series.high)), back = kept.reverse().map((i) => point(i, series.low));
      return kept.length ? `M${there.concat(back).join("L")}Z` : "";
    }

    drawCross() {
      if (!this.front) return;
      this.front.replaceChildren();
      const { box } = this, { at, brush } = this.view;
      if (brush && this.view.owner === this) {
        const [a, b] = brush.map(this.toX).sort((one, other) => one - other);
        this.front.append(svg("rect", { class: "brush", x: a, width: b - a, y: box.top, height: box.bottom - box.top }));
      }
      if (at === null || at < this.view.domain[0] || at > this.view.domain[1]) return;
      const x = this.toX(at);
      this.front.append(svg("line", { class: "cross", x1: x, x2: x, y1: box.top, y2: box.bottom }));
      for (const series of this.visible()) {
        const y = valueAt(series.x, series.mean, at);
        if (isNumber(y)) {
          this.front.append(svg("circle", { class: "point", style: `--ink: ${series.ink}`, cx: x, cy: this.toY(y), r: 4 }));
        }
      }
    }

    rows(at) {
      return this.visible().map((series) => {
        const [mean, low, high] = [series.mean, series.low, series.high].map((ys) => valueAt(series.x, ys, at));
        let text = isNumber(mean) ? exact(mean) : "none";
        if (isNumber(mean) && isNumber(low) && isNumber(high)) text += ` (${exact(low)} to ${exact(high)})`;
        return { series, name: series.name, text };
      });
    }

    point(at, clientX, clientY) {
      this.view.at = at;
      this.view.charts.forEach((chart) => chart.drawCross());
      showTip(clientX, clientY, this.given.say(at), this.rows(at));
    }

    leave() {
      this.view.at = null;
      this.view.charts.forEach((chart) => chart.drawCross());
      hideTip();
    }

    listen() {
      const place = (event) => {
        const x = event.clientX - this.root.getBoundingClientRect().left;
        return this.given.snap(this.fromX(Math.max(this.box.left, Math.min(this.box.right, x))));
      };
      let start = null;
      this.root.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        start = { x: event.clientX, at: place(event) };
        if (event.pointerType === "mouse") this.root.setPointerCapture(event.pointerId);
        this.point(start.at, event.clientX, event.clientY);
      });
      this.root.addEventListener("pointermove", (event) => {
        const at = place(event);
        // A few pixels are a shaky click, not a wish to zoom.
        this.view.brush = start && Math.abs(event.clientX - start.x) > 6 ? [start.at, at] : null;
        this.view.owner = this;
        this.point(at, event.clientX, event.clientY);
      });
      this.root.addEventListener("pointerup", () => {
        const brush = this.view.brush;
        start = this.view.brush = null;
        if (brush && brush[0] !== brush[1] && this.given.zooms) this.view.zoom(brush.sort((a, b) => a - b));
        else this.drawCross();
      });
      this.root.addEventListener("pointercancel", () => { start = this.view.brush = null; this.leave(); });
      this.root.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && !start) this.leave(); });
      this.root.addEventListener("dblclick", () => this.view.zoom(this.view.whole));
      this.root.addEventListener("blur", () => this.leave());
      this.root.addEventListener("keydown", (event) => this.key(event));
    }

    // Arrows move the crosshair, Escape goes back to the whole.
    key(event) {
      const [from, to] = this.view.domain, step = (to - from) / 50;
      const moves = { ArrowLeft: -step, ArrowRight: step };
      if (event.key === "Escape") { this.view.zoom(this.view.whole); this.leave(); return; }
      if (!(event.key in moves)) return;
      event.preventDefault();
      const before = this.view.at === null ? (from + to) / 2 : this.view.at;
      const at = Math.max(from, Math.min(to, this.given.snap(before + moves[event.key])));
      const box = this.root.getBoundingClientRect();
      this.point(at, box.left + this.toX(at), box.top + 60);
    }
  }

  function newView(whole, onZoom) {
    const view = { whole, domain: whole, hidden: new Set(), at: null, brush: null, owner: null, charts: [] };
    view.draw = () => view.charts.forEach((chart) => chart.draw());
    view.zoom = (domain) => {
      view.domain = domain;
      view.draw();
      if (onZoom) onZoom(domain !== view.whole);
    };
    return view;
  }

  function drawTraining(section, run) {
    const parent = section.querySelector(".charts");
    if (!parent) return;
    const reset = section.querySelector(".reset");
    const ends = run.charts.flatMap((chart) => chart.curves).filter(Boolean).map((curve) => curve.samples.at(-1));
    const view = newView([0, Math.max(...ends, 1)], (isZoomed) => { reset.hidden = !isZoomed; });
    reset.addEventListener("click", () => view.zoom(view.whole));
    const looks = run.schemes.map((scheme) => ({ name: scheme.name, look: scheme.look, ink: `var(--${scheme.colour})` }));
    run.charts.forEach((chart, place) => {
      const series = looks.map((look, i) => ({ ...look, curve: chart.curves[i] })).filter((one) => one.curve)
        .map(({ curve, ...look }) => ({ ...look, x: curve.samples, mean: curve.mean, low: curve.low, high: curve.high }));
      new Chart(parent, view, {
        name: chart.name, title: chart.label, note: chart.note, aria: chart.label + " against samples",
        series, levels: chart.levels, floor: chart.floor ?? undefined, zooms: true,
        height: (width) => place === 0 ? Math.max(260, Math.min(380, width * 0.4)) : 260,
        xLabel: "samples", snap: Math.round, say: (at) => exact(at) + " samples",
      });
    });
    for (const look of looks) {
      const button = html("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(swatch(look), html("span", "", look.name));
      button.addEventListener("click", () => {
        const isShown = view.hidden.has(look.name);
        if (isShown) view.hidden.delete(look.name); else view.hidden.add(look.name);
        button.setAttribute("aria-pressed", String(isShown));
        view.draw();
      });
      section.querySelector(".legend").append(button);
    }
  }

  function drawOverTime(parent, portrait, name) {
    const last = portrait.arrival.at(-1);
    const view = newView([1, Math.max(last, 2)]);
    new Chart(parent, view, {
      name: "portrait", aria: "chance of accepting by arrival, " + name, levels: [], range: [0, 1.02], zooms: false,
      series: [
        { name: "best so far", look: "solid", ink: "var(--text)", x: portrait.arrival, mean: portrait.with_record },
        { name: "not the best so far", look: "solid", ink: "var(--soft)", x: portrait.arrival, mean: portrait.without_record },
      ],
      threshold: { x: portrait.optimal_threshold + 0.5, label: "optimal: from here" },
      height: () => 230, xLabel: "arrival", snap: Math.round, say: (at) => "arrival " + at,
    });
    const keys = html("div", "scale keys");
    for (const [ink, text] of [["var(--text)", "best so far"], ["var(--soft)", "not the best so far"]]) {
      const key = html("span");
      key.append(swatch({ look: "solid", ink }), html("span", "", text));
      keys.append(key);
    }
    parent.append(keys);
    return "The chance that a policy accepts an arrival, and from where on the optimal policy takes the best so far.";
  }

  // Five colours from dark to light that every eye can put in order, straight lines between.
  const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  function colourOf(chance) {
    const place = Math.max(0, Math.min(1, chance)) * (RAMP.length - 1);
    const low = Math.min(Math.floor(place), RAMP.length - 2), part = place - low;
    return RAMP[low].map((one, i) => Math.round(one + part * (RAMP[low + 1][i] - one)));
  }
  function paint(canvas, width, height, chanceAt) {
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d"), image = context.createImageData(width, height);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) image.data.set([...colourOf(chanceAt(x, y)), 255], 4 * (y * width + x));
    }
    context.putImageData(image, 0, 0);
  }

  function drawMap(parent, slice, across, up, what) {
    const moment = slice.at === null ? [] : [Math.round(100 * slice.at) + "% seen"];
    const title = [...moment, ...(slice.name ? [slice.name] : [])].join(", ");
    const node = html("div", "map"), canvas = html("canvas"), side = html("div", "up"), foot = html("div", "across");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${what} by ${across.name} and ${up.name}, ${title}`);
    const columns = across.values.length, rows = up.values.length;
    paint(canvas, columns, rows, (x, y) => slice.chances[x][rows - 1 - y]);
    for (const text of [exact(up.values.at(-1)), up.name, exact(up.values[0])]) side.append(html("span", "", text));
    for (const text of [exact(across.values[0]), across.name, exact(across.values.at(-1))]) foot.append(html("span", "", text));
    const show = (event) => {
      const box = canvas.getBoundingClientRect();
      const x = Math.max(0, Math.min(columns - 1, Math.floor((event.clientX - box.left) / box.width * columns)));
      const y = Math.max(0, Math.min(rows - 1, Math.floor((box.bottom - event.clientY) / box.height * rows)));
      showTip(event.clientX, event.clientY, title, [
        { name: across.name, text: exact(across.values[x]) }, { name: up.name, text: exact(up.values[y]) },
        { name: what, text: (100 * slice.chances[x][y]).toFixed(1) + "%" },
      ]);
    };
    canvas.addEventListener("pointermove", show);
    canvas.addEventListener("pointerdown", show);
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hideTip(); });
    node.append(html("div", "title", title), side, canvas, foot);
    parent.append(node);
  }

  function drawMaps(parent, portrait, across, up, what) {
    const maps = html("div", "maps");
    const columns = portrait.slices.length > 3 ? portrait.slices.length / 2 : portrait.slices.length;
    maps.style.gridTemplateColumns = `repeat(${Math.ceil(columns)}, minmax(0, 1fr))`;
    for (const slice of portrait.slices) drawMap(maps, slice, across, up, what);
    const scale = html("div", "scale"), canvas = html("canvas");
    paint(canvas, 100, 1, (x) => x / 99);
    scale.append(html("span", "", what), html("span", "", "0%"), canvas, html("span", "", "100%"));
    parent.append(maps, scale);
  }

  const PORTRAITS = {
    over_time: drawOverTime,
    over_arrivals: (parent, portrait) => {
      drawMaps(parent, portrait, { name: "arrival", values: portrait.arrival }, { name: portrait.measure, values: portrait.marks },
        "chance of accepting");
      return `Arrivals by time and ${portrait.measure}, with all picks left and with one; the optimal policy beside.`;
    },
    over_items: (parent, portrait) => {
      drawMaps(parent, portrait, { name: "size", values: portrait.size }, { name: "value", values: portrait.value },
        "chance of accepting");
      return "Items by size and value, at two moments: behind is a bag as full as planned with less value in it, ahead a bag less full.";
    },
    over_bids: (parent, portrait) => {
      drawMaps(parent, portrait, { name: "bid", values: portrait.bid }, { name: "budget left", values: portrait.budget },
        "chance of getting the slot");
      return "One advertiser by its bid and the budget it has left, at two moments; the others bid and own the middle.";
    },
  };

  function drawPortraits(section, run) {
    for (const figure of section.querySelectorAll(".portrait")) {
      const portrait = run.portraits[Number(figure.dataset.portrait)], draw = PORTRAITS[portrait.kind];
      if (!draw) continue;
      const name = figure.querySelector("figcaption").textContent;
      section.querySelector(".portrait-note").textContent = draw(figure.querySelector(".picture"), portrait, name);
    }
  }

  function listenToTheme() {
    const button = document.getElementById("theme"), wish = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (document.documentElement.dataset.theme || (wish.matches ? "dark" : "light")) === "dark";
    const tell = () => button.setAttribute("aria-pressed", String(isDark()));
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      tell();
    });
    wish.addEventListener("change", tell);
    tell();
  }

  listenToTheme();
  for (const section of document.querySelectorAll("[data-run]")) {
    const run = DATA[Number(section.dataset.run)];
    drawTraining(section, run);
    drawPortraits(section, run);
  }
  // A finger leaves as soon as it is lifted: what it asked for stays until it touches something else.
  addEventListener("pointerdown", hideTip, { capture: true });
  addEventListener("scroll", hideTip, { passive: true });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
})();
