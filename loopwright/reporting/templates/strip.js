"use strict";
// The strip of a loop: a bar for each place of a line, its own place and the best ones marked.
const strip = (() => {
  const { element, svg, figure } = view;
  const [WIDTH, TOP, HEIGHT, LEFT] = [640, 16, 64, 4];

  function draw(side, core, n) {
    const places = side.strip(core, n);
    if (!places) return element("p", { class: "note" }, `${scan.cores[core]}: ${scan.words[side.costs[core].error[n]]}`);
    const { here, best, worst } = side.cost(core, n);
    const own = side.offset(n);
    const wide = (WIDTH - 2 * LEFT) / places.length;
    const x = (offset) => LEFT + (offset / 64) * (WIDTH - 2 * LEFT);
    const high = (cycles) => Math.max((cycles / worst) * HEIGHT, 1);
    const bars = places.map((cycles, at) => {
      const offset = at * scan.step;
      const kind = offset === own ? `own ${side.costs[core].state[n]}` : cycles <= best * 1.02 ? "best" : "bar";
      const bar = svg("rect", {
        class: kind, x: (x(offset) + 0.5).toFixed(1), width: (wide - 1).toFixed(1),
        y: (TOP + HEIGHT - high(cycles)).toFixed(1), height: high(cycles).toFixed(1),
      });
      bar.append(svg("title", {}, `code offset ${offset}: ${figure(cycles)} cycles an iteration`));
      return bar;
    });
    const ticks = [0, 16, 32, 48].flatMap((at) => [
      svg("line", { class: at ? "tick" : "tick line", x1: x(at), x2: x(at), y1: TOP - 4, y2: TOP + HEIGHT + 4 }),
      svg("text", { x: x(at) + 2, y: TOP + HEIGHT + 14 }, String(at)),
    ]);
    const middle = Math.min(Math.max(x(own) + wide / 2, 18), WIDTH - 18);
    const mark = svg("text", { class: "here", x: middle, y: TOP - 5, "text-anchor": "middle" }, `here ${own}`);
    const said = words(side, core, n);
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${TOP + HEIGHT + 18}`, role: "img", "aria-label": said, class: "strip" },
      ...ticks, ...bars, mark,
    );
    return element("figure", {}, picture, element("figcaption", {}, `${said}. Predicted; bars from 0 to ${figure(worst)} cycles.`));
  }

  // The same in words: places in a row that take as many cycles.
  function words(side, core, n) {
    const places = side.strip(core, n);
    const { here } = side.cost(core, n);
    const runs = new Map();
    for (let at = 0, from = 0; at < places.length; at++) {
      if (at + 1 < places.length && places[at + 1] === places[from]) continue;
      const [first, last] = [from * scan.step, at * scan.step];
      const list = runs.get(places[from]) ?? [];
      list.push(first === last ? `${first}` : `${first} to ${last}`);
      runs.set(places[from], list);
      from = at + 1;
    }
    const sorted = [...runs].sort(([a], [b]) => a - b);
    const said = sorted.map(([cycles, list]) => `${figure(cycles)} at ${list.join(", ")}`);
    return `${scan.cores[core]}: cycles an iteration by code offset (bytes mod 64): ${said.join("; ")}. Here, at ${side.offset(n)}: ${figure(here)}`;
  }

  return draw;
})();
