"use strict";
// The scan as the page's scripts see it: rows, each a loop (or a pair of two builds) on a core.
const scan = (() => {
  const data = JSON.parse(document.getElementById("scan").textContent);
  const { words, cores, pairs } = data;
  const step = data.isa === "arm64" ? 4 : 1;

  // A strip is (cycles, places in a row at which it takes them) in turn.
  function unrolled(strip) {
    const out = [];
    for (let n = 0; n < strip.length; n += 2) {
      for (let k = 0; k < strip[n + 1]; k++) out.push(strip[n]);
    }
    return out;
  }

  const sides = data.sides.map((side, number) => {
    const starts = side.sections.map(([, , address]) => BigInt(address));
    const strips = side.strips.map(unrolled);
    const least = strips.map((s) => Math.min(...s));
    const most = strips.map((s) => Math.max(...s));
    const whole = new Set(side.whole);
    const held = Object.fromEntries(["code", "timelines"].map((kind) =>
      [kind, new Map(side[kind].held.map((loop, n) => [loop, n]))]));
    const address = (n) => starts[side.section[n]] + BigInt(side.at[n]);
    const unpacked = new Map();
    return {
      ...side, number, whole, address,
      count: side.at.length,
      offset: (n) => Number(address(n) % 64n),
      hex: (n) => `0x${address(n).toString(16)}`,
      name: (n) => words[side.function[n]],
      file: (n) => words[side.sections[side.section[n]][0]],
      sectionName: (n) => words[side.sections[side.section[n]][1]],
      where(n) {
        const name = this.name(n);
        if (!name) return this.hex(n);
        return side.into[n] ? `${name}+0x${side.into[n].toString(16)}` : name;
      },
      strip(core, n) {
        const at = side.costs[core].strip[n];
        return at < 0 ? null : strips[at];
      },
      cost(core, n) {
        const at = side.costs[core].strip[n];
        if (at < 0) return null;
        const here = strips[at][this.offset(n) / step];
        const best = least[at];
        return { here, best, worst: most[at], lost: here - best, times: best ? here / best : 1 };
      },
      // What is packed of a loop, "code" or "timelines", with its texts: unpacked with its neighbours.
      async details(kind, n) {
        const at = held[kind].get(n);
        if (at === undefined) return null;
        const pack = Math.floor(at / side.together);
        const key = `${kind} ${pack}`;
        if (!unpacked.has(key)) unpacked.set(key, unpack(side[kind].packs[pack]));
        const { words: own, loops } = await unpacked.get(key);
        return { of: loops[at % side.together], words: own };
      },
    };
  });

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  // b is a loop of the build that is shown (of two: the later one), a one of the earlier.
  const rows = [];
  const [shown, before] = sides;
  for (let core = 0; core < cores.length; core++) {
    const states = pairs ? pairs.change[core] : shown.costs[core].state;
    for (let n = 0; n < states.length; n++) {
      const [a, b] = pairs ? [pairs.a[n], pairs.b[n]] : [-1, n];
      rows.push({ core, a, b, state: states[n] });
    }
  }
  const states = new Map(data.states.map(([key, word, look]) => [key, { word, look }]));
  const unchanged = new Set(data.states.filter(([, w]) => w === "same" || w === "unknown").map(([k]) => k));

  return {
    data, words, cores, sides, shown, before, rows, states, step,
    builds: data.kind === "builds",
    weighed: Boolean(shown.share),
    changed: (row) => !unchanged.has(row.state),
    // The side and the loop that a row names: what is gone is one of the earlier build.
    of: (row) => (row.b >= 0 ? [shown, row.b] : [before, row.a]),
    key: (row) => `${cores[row.core]}:${row.b >= 0 ? "" : "a"}${row.b >= 0 ? row.b : row.a}`,
  };
})();
