"use strict";
// The instructions of an iteration, with the boundaries that its code crosses drawn in.
const code = (() => {
  const { element, box } = view;
  const hex = (n) => `0x${n.toString(16)}`;

  // Bytes from the loop's first one at which boundaries lie, each with its size and whether it hurts.
  function boundaries(side, core, n) {
    const found = side.costs[core].boundary[n];
    const [size, , at] = found ?? [64, 0, null];
    const out = [];
    for (let x = 0; x <= side.bytes[n]; x++) {
      const place = side.offset(n) + x;
      if (place % size === 0) out.push({ x, size: place % 64 ? size : 64, hurts: x === at });
    }
    return out;
  }

  function edge(side, n, { x, size, hurts }) {
    const said = `${size}-byte boundary at ${hex(side.address(n) + BigInt(x))}${hurts ? ", which hurts" : ""}`;
    return element("tr", { class: hurts ? "edge hurts" : "edge" }, element("td", { colspan: "4" }, said));
  }

  function instruction(side, n, of, at, length, text, last, cuts) {
    const address = side.address(n) + BigInt(at);
    const bytes = of.code.slice(2 * at, 2 * (at + length)).match(/../g);
    const shown = bytes.map((byte, k) => (cuts.some((cut) => cut.x === at + k) ? `\u2502${byte}` : byte)).join(" ");
    const remarks = cuts.map((cut) => `cut by a ${cut.size}-byte boundary${cut.hurts ? ", which hurts" : ""}`);
    if (of.exits.includes(at)) remarks.push("may leave the loop");
    if (last) remarks.push("back to the first");
    return element(
      "tr", { class: cuts.some((cut) => cut.hurts) ? "hurts" : cuts.length ? "cut" : false },
      element("th", { scope: "row" }, element("span", { class: "address" }, `${hex(address)} `), `+${hex(at)}`),
      element("td", { class: "bytes" }, shown),
      element("td", { class: "text" }, text),
      element("td", { class: "why" }, remarks.join("; ")),
    );
  }

  function draw(side, core, n, { of, words }) {
    const body = element("tbody");
    const edges = boundaries(side, core, n);
    let behind = 0;
    of.lines.forEach(([at, length, word], k) => {
      if (at !== behind) {
        const skipped = at > behind ? `, ${view.counted(at - behind, "byte")} further on` : "";
        body.append(element("tr", { class: "gap" }, element("td", { colspan: "4" }, `goes on at +${hex(at)}${skipped}`)));
      }
      for (const one of edges.filter((e) => e.x === at)) body.append(edge(side, n, one));
      const cuts = edges.filter((e) => at < e.x && e.x < at + length);
      const last = k === of.lines.length - 1;
      body.append(instruction(side, n, of, at, length, words[word], last, cuts));
      behind = at + length;
    });
    for (const one of edges.filter((e) => e.x === behind)) body.append(edge(side, n, one));
    const caption = `An iteration of ${side.where(n)}: instructions on its likely path, boundaries as ${scan.cores[core]} has them`;
    const heads = ["address, place in the loop", "bytes", "instruction", "remark"];
    const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text)));
    return box(
      element("table", { class: "code" }, element("caption", {}, caption), element("thead", {}, head), body),
      "Instructions, scroll sideways",
    );
  }

  return draw;
})();
