"use strict";
// The instructions of an iteration, with the boundaries that its code crosses drawn in.
const code = (() => {
  const { element, box } = view;
  const hex = (n) => `0x${n.toString(16)}`;

  // Where boundaries lie, in bytes from the loop's first one: all of 64, and those that hurt on a core.
  function boundaries(side, n) {
    const out = new Map();
    for (let x = (64 - side.offset(n)) % 64; x <= side.bytes[n]; x += 64) out.set(x, { x, size: 64, hurts: [] });
    scan.cores.forEach((name, core) => {
      const [size, , at] = side.costs[core].boundary[n] ?? [0, 0, null];
      if (at === null) return;
      const one = out.get(at) ?? { x: at, size, hurts: [] };
      one.hurts.push(name);
      out.set(at, one);
    });
    return [...out.values()];
  }

  const hurting = ({ hurts }) => (hurts.length ? `, which hurts on ${hurts.join(", ")}` : "");

  function edge(side, n, one) {
    const said = `${one.size}-byte boundary at ${hex(side.address(n) + BigInt(one.x))}${hurting(one)}`;
    return element("tr", { class: one.hurts.length ? "edge hurts" : "edge" }, element("td", { colspan: "4" }, said));
  }

  function instruction(side, n, of, executed, at, length, text, last, cuts) {
    const address = side.address(n) + BigInt(at);
    const bytes = of.code.slice(2 * executed, 2 * (executed + length)).match(/../g);
    const shown = bytes.map((byte, k) => (cuts.some((cut) => cut.x === at + k) ? `\u2502${byte}` : byte)).join(" ");
    const remarks = cuts.map((cut) => `cut by a ${cut.size}-byte boundary${hurting(cut)}`);
    if (of.exits.includes(at)) remarks.push("may leave the loop");
    if (last) remarks.push("back to the first");
    return element(
      "tr", { class: cuts.some((cut) => cut.hurts.length) ? "hurts" : cuts.length ? "cut" : false },
      element("th", { scope: "row" }, element("span", { class: "address" }, `${hex(address)} `), `+${hex(at)}`),
      element("td", { class: "bytes" }, shown),
      element("td", { class: "text" }, text),
      element("td", { class: "why" }, remarks.join("; ")),
    );
  }

  function draw(side, n, { of, words }) {
    const body = element("tbody");
    const edges = boundaries(side, n);
    let behind = 0;
    let executed = 0;
    of.lines.forEach(([at, length, word], k) => {
      if (at !== behind) {
        const skipped = at > behind ? `, ${view.counted(at - behind, "byte")} further on` : "";
        body.append(element("tr", { class: "gap" }, element("td", { colspan: "4" }, `goes on at +${hex(at)}${skipped}`)));
      }
      for (const one of edges.filter((e) => e.x === at)) body.append(edge(side, n, one));
      const cuts = edges.filter((e) => at < e.x && e.x < at + length);
      const last = k === of.lines.length - 1;
      body.append(instruction(side, n, of, executed, at, length, words[word], last, cuts));
      behind = at + length;
      executed += length;
    });
    for (const one of edges.filter((e) => e.x === behind)) body.append(edge(side, n, one));
    const caption = `An iteration of ${side.where(n)}: instructions on its likely path, with boundaries of 64 bytes and those that hurt`;
    const heads = ["address, offset in the loop", "bytes", "instruction", "remark"];
    const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
    return box(
      element("table", { class: "code" }, element("caption", {}, caption), element("thead", {}, head), body),
      "Instructions, scroll sideways",
    );
  }

  return draw;
})();
