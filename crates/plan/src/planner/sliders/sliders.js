// The sliders of a plan's page: shows the point of the grid that their positions say. Everything was computed before; nothing is asked of anybody.
(() => {
  const here = document.currentScript;
  const data = JSON.parse(here.previousElementSibling.textContent);
  const place = here.previousElementSibling.previousElementSibling;
  const { loads, machines } = data;
  // Readable on white and on black.
  const COLOURS = ["#2f7be0", "#d9560b", "#2f9e58", "#8a4fd8", "#b8860b", "#1797a8", "#d03a7a", "#6b7680"];
  const DASHES = ["", "9 3", "3 3", "10 3 2 3", "1 4"];
  const partNames = [...new Set(machines.flatMap((machine) => machine.parts))];
  const colour = (name) => COLOURS[partNames.indexOf(name) % COLOURS.length];

  const element = (name, attributes = {}, ...children) => {
    const svg = ["svg", "path", "line", "text", "circle", "title", "g"].includes(name) && name;
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", svg) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const digits = (x) => (x === 0 ? "0" : x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x >= 0.9995 ? x.toFixed(2) : x.toFixed(3));
  const short = (x) => {
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (x >= size * 0.9995) return digits(x / size) + unit;
    return digits(x);
  };
  const time = (s) => (s >= 0.9995 ? `${digits(s)} s` : s >= 0.9995e-3 ? `${digits(s * 1e3)} ms` : s >= 0.9995e-6 ? `${digits(s * 1e6)} µs` : `${digits(s * 1e9)} ns`);

  // Which step of each slider is chosen: of the rate, of the workload, of each machine.
  const nearest = loads.reduce((best, load, at) => (Math.abs(Math.log(load / data.rate)) < Math.abs(Math.log(loads[best] / data.rate)) ? at : best), 0);
  const chosen = { rate: nearest, common: data.sliders.map((one) => one.start), own: machines.map((machine) => machine.sliders.map((one) => one.start)) };
  const pointOf = (machine, at) => {
    const steps = [...data.sliders, ...machine.sliders];
    const taken = [...chosen.common, ...chosen.own[at]];
    return machine.points[steps.reduce((index, slider, number) => index * slider.steps.length + taken[number], 0)];
  };
  const bestOf = (point, load) => {
    const found = point?.[1][load];
    return found && { mixture: found[0], p99: found[1], part: found[2], used: found[3], cores: found[4], watts: found[5] };
  };

  const row = (label, words, values, start, put) => {
    const input = element("input", { type: "range", min: 0, max: words.length - 1, step: 1, value: start, "aria-label": label });
    const output = element("output");
    const show = () => {
      output.textContent = words[input.value];
      input.setAttribute("aria-valuetext", words[input.value]);
      input.dataset.value = values[input.value];
    };
    input.addEventListener("input", () => {
      put(Number(input.value));
      show();
      draw();
    });
    show();
    return element("label", {}, element("span", {}, label), input, output);
  };
  const group = (title, rows) => element("fieldset", {}, element("legend", {}, title), ...rows);
  const rate = row("requests per second", loads.map((load) => `${short(load)}/s`), loads, nearest, (step) => (chosen.rate = step));
  const common = data.sliders.map((one, at) => row(one.label, one.steps, one.values, one.start, (step) => (chosen.common[at] = step)));
  const form = element("form", {}, group("Workload", [rate, ...common]));
  machines.forEach((machine, at) => {
    const rows = machine.sliders.map((one, number) => row(one.label, one.steps, one.values, one.start, (step) => (chosen.own[at][number] = step)));
    if (rows.length > 0) form.append(group(machine.name, rows));
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  const chart = element("figure", { tabindex: 0 });
  const legend = element("div", { class: "legend" });
  const table = element("div", { class: "wide", tabindex: 0, "aria-live": "polite" });
  place.replaceChildren(form, chart, legend, table);

  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [1000, 400, 70, 20, 34, 44];
  const letterOf = (number) => String.fromCharCode(65 + (number % 26)) + (number < 26 ? "" : Math.floor(number / 26));

  /// Powers of ten between two numbers, and so many multiples of them that there are three ticks.
  const ticks = (low, high) => {
    for (const multiples of [[1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      const all = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) all.push(...multiples.map((one) => one * 10 ** power));
      const within = all.filter((tick) => tick >= low && tick <= high);
      if (within.length > 2 || multiples.length > 3) return within;
    }
  };

  function draw() {
    const points = machines.map(pointOf);
    const curves = points.map((point) => loads.map((_, load) => bestOf(point, load)));
    const heights = curves.flat().filter(Boolean).map((best) => best.p99);
    if (data.limit) heights.push(data.limit);
    const [low, high] = heights.length > 0 ? [Math.min(...heights) / 1.3, Math.max(...heights) * 1.3] : [1e-6, 1e-3];
    const x = (load) => LEFT + ((WIDTH - LEFT - RIGHT) * Math.log(load / loads[0])) / Math.log(loads.at(-1) / loads[0]);
    const y = (p99) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * Math.log(p99 / low)) / Math.log(high / low);
    const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "legible", "aria-label": "99th percentile over load; the table below has the figures at the chosen rate" });
    svg.append(element("text", { class: "title", x: LEFT, y: 16 }, "Lowest p99 of all routes over load, by arithmetic; colour: what is busiest"));
    for (const tick of ticks(low, high)) {
      svg.append(element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }));
      svg.append(element("text", { class: "tick end", x: LEFT - 6, y: y(tick) + 4 }, time(tick)));
    }
    for (const tick of ticks(loads[0], loads.at(-1))) {
      svg.append(element("line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: HEIGHT - BOTTOM }));
      svg.append(element("text", { class: "tick mid", x: x(tick), y: HEIGHT - BOTTOM + 16 }, `${short(tick)}/s`));
    }
    if (data.limit) {
      svg.append(element("line", { class: "limit", x1: LEFT, x2: WIDTH - RIGHT, y1: y(data.limit), y2: y(data.limit) }));
      svg.append(element("text", { class: "tick", x: LEFT + 4, y: y(data.limit) - 5 }, `limit ${time(data.limit)}`));
    }
    const at = loads[chosen.rate];
    svg.append(element("line", { class: "chosen", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM }));
    const routes = [];
    const parts = new Map();
    machines.forEach((machine, number) => drawCurve(svg, machine, number, curves[number], { x, y, routes, parts }));
    chart.replaceChildren(svg);
    drawLegend(routes, parts);
    drawTable(points, curves, routes);
  }

  function drawCurve(svg, machine, number, curve, { x, y, routes, parts }) {
    const letter = (mixture) => {
      let found = routes.findIndex((route) => route.machine === machine && route.mixture === mixture);
      if (found < 0) found = routes.push({ machine, mixture }) - 1;
      return letterOf(found);
    };
    let last;
    curve.forEach((best, load) => {
      if (best) {
        const before = curve[load - 1];
        const part = machine.parts[best.part];
        parts.set(part, Math.max(parts.get(part) ?? 0, best.used));
        if (before) {
          const style = `stroke:${colour(part)};stroke-width:2.5;stroke-dasharray:${DASHES[number % DASHES.length]}`;
          const path = element("path", { class: "line", style, d: `M${x(loads[load - 1])} ${y(before.p99)}L${x(loads[load])} ${y(best.p99)}` });
          path.append(element("title", {}, `${machine.name}: ${machine.mixtures[best.mixture]}, ${time(best.p99)} at ${short(loads[load])}/s, ${part} ${Math.round(best.used * 100)} %`));
          svg.append(path);
        }
        if (before?.mixture !== best.mixture) {
          svg.append(element("circle", { class: "dot", style: `fill:${colour(part)}`, cx: x(loads[load]), cy: y(best.p99), r: 4 }));
          svg.append(element("text", { class: "label", x: x(loads[load]) + 6, y: y(best.p99) - 7 }, letter(best.mixture)));
        }
        last = load;
      }
    });
    if (last !== undefined && machines.length > 1) {
      svg.append(element("text", { class: "tick end", x: x(loads[last]) - 8, y: y(curve[last].p99) - 8 }, machine.name));
    }
  }

  function drawLegend(routes, parts) {
    const key = (name) => element("li", {}, element("i", { style: `background:${colour(name)}` }), name);
    const what = (machine, mixture) => {
      const names = machine.mixtures[mixture].split(" + ");
      return names.map((name) => machine.ways.find((way) => way.name === name)?.what ?? name).join("; ");
    };
    const route = ({ machine, mixture }, number) => {
      const on = machines.length > 1 ? `${machine.name}: ` : "";
      return element("li", {}, element("b", {}, letterOf(number)), ` ${on}${machine.mixtures[mixture]}`, element("small", {}, what(machine, mixture)));
    };
    legend.replaceChildren(
      element("h3", {}, "Busiest"),
      element("ul", { class: "parts" }, ...[...parts.keys()].map(key)),
      element("h3", {}, "Routes"),
      element("ul", {}, ...routes.map(route)),
    );
  }

  function drawTable(points, curves, routes) {
    const heads = ["machine", "route", "p99", "busiest", "of it", "host cores", "watts", "most"];
    const words = new Set([0, 1, 3]);
    const cell = (name, text, number) => element(name, words.has(number) ? { class: "words" } : {}, text);
    const head = element("tr", {}, ...heads.map((text, number) => cell("th", text, number)));
    const rows = machines.map((machine, number) => {
      const best = curves[number][chosen.rate];
      const most = points[number] ? `${short(points[number][0])}/s` : "–";
      const none = points[number] ? "cannot serve so much" : "cannot say";
      const letter = best && letterOf(routes.findIndex((route) => route.machine === machine && route.mixture === best.mixture));
      const late = best && data.limit && best.p99 > data.limit ? " ✗" : "";
      const texts = best
        ? [machine.name, `${letter} ${machine.mixtures[best.mixture]}`, time(best.p99) + late, machine.parts[best.part], `${Math.round(best.used * 100)} %`, digits(best.cores), best.watts === null ? "–" : digits(best.watts), most]
        : [machine.name, none, "–", "–", "–", "–", "–", most];
      const line = element("tr", { "data-machine": machine.name }, ...texts.map((text, number) => cell("td", text, number)));
      line.dataset.most = points[number]?.[0] ?? "";
      line.dataset.p99 = best?.p99 ?? "";
      return line;
    });
    const caption = element("caption", {}, `At ${short(loads[chosen.rate])}/s, by arithmetic`);
    table.replaceChildren(element("table", {}, caption, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  draw();
})();
