"use strict";
// All that is known of a loop, when it is asked for.
const loop = (() => {
  const { element, figure, counted, coded, table } = view;
  const { words, cores } = scan;
  const viewer = document.getElementById("viewer");
  const home = document.getElementById("home");

  function fact(name, ...said) {
    return element("div", {}, element("dt", {}, name), element("dd", {}, ...said));
  }

  function facts(side, n, of) {
    const out = [fact("Where", `${side.hex(n)}, ${side.sectionName(n)}${side.file(n) ? ` of ${side.file(n)}` : ""}, code offset ${side.offset(n)} B`)];
    if (side.line[n]) out.push(fact("Source", words[side.line[n]]));
    const length = of ? `, ${counted(of.lines.length, "instruction")} an iteration` : "";
    const jumps = of && of.path.length > 1 ? ` in ${of.path.length} stretches` : "";
    out.push(fact("Length", `${counted(side.bytes[n], "byte")} from the first to the last${length}${jumps}`));
    if (scan.weighed) {
      const of = side.whole.has(n) ? " (of its whole routine: at most so much)" : "";
      out.push(fact("Share", `${figure(side.share[n])} % of all cycles of the profile${of}`));
    }
    if (side === scan.shown) {
      const how = of?.how ? coded(of.how) : [words[side.fix[n]] || "no core has a figure"];
      out.push(fact("Fix", ...how));
    }
    return element("dl", { class: "facts" }, ...out);
  }

  function costs(sides) {
    const rows = cores.flatMap((name, core) => sides.map(([side, n, label]) => {
      const cost = side.cost(core, n);
      const more = side.costs[core];
      const found = more.boundary[n];
      return [
        label ? `${name}, ${label}` : name,
        ...(cost ? [cost.here, cost.best, cost.worst, cost.lost].map((c) => figure(c)) : ["\u2014", "\u2014", "\u2014", "\u2014"]),
        STATE[more.state[n]],
        words[more.limit[n]] ?? "",
        found ? `${found[0]} B ${words[found[1]]}`.trim() : "",
        words[more.error[n]] ?? "",
      ];
    }));
    const heads = [
      ["core", false], ["cycles/iteration here", true], ["at best place", true], ["at worst", true], ["lost", true],
      ["state", false], ["limit", false], ["boundary", false], ["why no figure", false],
    ];
    const kept = heads.map((_, column) => column < 6 || rows.some((row) => row[column]));
    const only = (list) => list.filter((_, column) => kept[column]);
    return table("What an iteration takes, predicted", only(heads), rows.map(only));
  }
  const STATE = { h: "hurt", d: "depends", i: "indifferent", "-": "no figure" };

  function timelines(side, n, code_, times, core) {
    if (!times) return element("p", { class: "note" }, "Its timeline is not in this page, for its size.");
    const choices = times.of.flatMap((of, c) => of.map(([offset, rows]) => ({ c, offset, rows })));
    if (!choices.length) return element("p", { class: "note" }, "There is no timeline: no core has a figure.");
    const label = ({ c, offset }) => {
      const cycles = side.strip(c, n)[offset / scan.step];
      return `${cores[c]} at offset ${offset}, ${offset === side.offset(n) ? "where it lies" : "its best one"}: ${figure(cycles)} cycles`;
    };
    const first = Math.max(choices.findIndex((one) => one.c === core), 0);
    const select = element("select", {}, ...choices.map((one, k) => new Option(label(one), k, k === first, k === first)));
    const place = element("div");
    const [texts, instructions] = [times.words, code_.of.lines.map(([, , word]) => code_.words[word])];
    const show = () => {
      const { c, offset, rows } = choices[select.value];
      const timeline = {
        rows: rows.map(([iteration, number, ...rest]) => [iteration, number, texts.length + number, ...rest]),
        again: code_.of.path.length > 1 ? scan.data.command
          : `loopwright predict --hex ${code_.of.code} --microarch ${cores[c]} --offset ${offset} --timeline 4`,
      };
      place.append(viewer);
      showTimeline(timeline, [...texts, ...instructions], `${side.where(n)} on ${cores[c]} at code offset ${offset}`, scan.data.origin);
    };
    select.addEventListener("change", show);
    const opened = element("details", { class: "more timeline" },
      element("summary", {}, "Timeline of its first iterations"),
      element("form", { class: "choices" }, element("label", {}, "timeline ", select)), place);
    opened.addEventListener("toggle", () => {
      if (!opened.open) return;
      // There is one viewer: of two builds one timeline is open.
      for (const other of document.querySelectorAll("details.timeline[open]")) other.open = other === opened;
      show();
    });
    opened.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    return opened;
  }

  const heading = (text) => element("h4", {}, text);

  async function part(side, n, core, build) {
    const [details, times] = await Promise.all(["code", "timelines"].map((kind) => side.details(kind, n)));
    const out = [facts(side, n, details?.of)];
    if (build) out.unshift(heading(`${build}: ${side.where(n)}`));
    if (!details) {
      out.push(element("p", { class: "note" }, scan.builds
        ? "Its instructions and timeline are not in this page, which has those of loops that changed."
        : "Its instructions and timeline are not in this page, which has those of the loops that lose most, for its size."));
      return out;
    }
    out.push(code(side, n, details), timelines(side, n, details, times, core));
    return out;
  }

  // The content of a row that is opened.
  async function draw(row) {
    const sides = [];
    if (row.b >= 0) sides.push([scan.shown, row.b, scan.builds ? "build B" : ""]);
    if (row.a >= 0) sides.push([scan.before, row.a, "build A"]);
    const [side, n] = sides[0];
    const order = [row.core, ...cores.keys()].filter((c, at, all) => all.indexOf(c) === at);
    const strips = order.flatMap((c) => sides.map(([s, m, label]) => {
      const figure_ = strip(s, c, m);
      if (label) figure_.prepend(element("p", { class: "note" }, label));
      return figure_;
    }));
    const [own, ...others] = await Promise.all(sides.map(([s, m, label]) => part(s, m, row.core, label)));
    const made = element("div", { class: "opened" }, element("h3", { tabindex: "-1" }, side.where(n)));
    made.append(costs(sides), element("div", { class: "abreast" }, ...strips), ...own);
    for (const other of others) made.append(...other);
    return made;
  }

  // Before a row is closed: the viewer is one of the page, and goes home.
  const leave = () => home.append(viewer);

  return { draw, leave };
})();
