"use strict";
// The map: all loops of a core by address, the code in lines as in a book; those hurt stand out.
const maps = (() => {
  const { element, svg, figure, count, counted } = view;
  const { shown, cores, states } = scan;
  const place = document.getElementById("maps");
  const pointed = document.getElementById("pointed");
  const [PITCH, HIGH, LINE] = [22, 15, 1 << 14];
  const MOST_LINES = cores.length > 2 ? 8 : 14;
  const LOOKS = ["none", "faint", "middle", "good", "loud"]; // the last one is drawn on top
  const HEIGHTS = { none: 3, faint: 3, middle: 7, good: 11, loud: 15 };

  // Code in one stretch: where each section begins in it.
  const starts = [];
  let total = 0;
  for (const [, , , size] of shown.sections) {
    starts.push(total);
    total += size;
  }
  const at = (n) => starts[shown.section[n]] + shown.at[n];
  const lines = Math.min(MOST_LINES, Math.max(1, Math.ceil(total / LINE)));
  const round = total > 16 * 4096 ? 4096 : 16; // so that lines begin at places one can read
  const across = Math.max(Math.ceil(total / lines / round), 1) * round;
  const most = scan.weighed ? Math.max(...shown.share) : 0;

  function name(position) {
    let n = starts.length - 1;
    while (n > 0 && starts[n] > position) n--;
    const [file, section] = shown.sections[n].map((word) => scan.words[word]);
    const from = position - starts[n];
    const whole = `${file ? `${file} ` : ""}${section}`;
    const short = whole.length > 14 ? `\u2026${whole.slice(-13)}` : whole;
    return from ? `${short}+${from.toString(16)}` : short;
  }

  const height = (row, look) => {
    if (!scan.weighed) return HEIGHTS[look];
    const share = shown.share[row.b];
    return share > 0 ? 4 + (HIGH - 4) * Math.sqrt(share / most) : 2;
  };

  function said(row) {
    const cost = shown.cost(row.core, row.b);
    const cycles = cost ? `${figure(cost.here)} cycles an iteration on ${cores[row.core]}, ${figure(cost.best)} at its best code offset` : `no figure on ${cores[row.core]}`;
    const share = scan.weighed ? `, ${figure(shown.share[row.b])} % of all cycles` : "";
    return `${shown.where(row.b)} at ${shown.hex(row.b)}: ${states.get(row.state).word}, ${cycles}${share}`;
  }

  class Map_ {
    constructor(core, rows) {
      this.core = core;
      this.rows = rows.filter((row) => row.b >= 0).sort((a, b) => at(a.b) - at(b.b));
      this.kept = this.rows.filter((row) => row.kept);
      const loud = this.kept.filter((row) => states.get(row.state).look === "loud");
      this.stops = loud.length ? loud : this.kept;
      this.current = -1;
      this.picture = svg("svg", { class: "map", role: "img", "aria-label": this.label() });
      this.box = element("div", {
        class: "map-box", tabindex: "0", role: "group",
        "aria-label": `Map of ${cores[core]}: left and right go from one ${loud.length ? states.get(loud[0].state).word : "shown"} loop to the next, up and down to the next line, Enter opens it`,
      }, this.picture);
      this.figure = element("figure", {}, this.box, element("figcaption", {}, ...this.legend()));
      this.box.addEventListener("keydown", (event) => this.key(event));
      this.box.addEventListener("blur", () => this.mark(-1));
      this.picture.addEventListener("pointermove", (event) => this.point(event));
      this.picture.addEventListener("click", (event) => {
        const row = this.near(event);
        if (row) table.reveal(row);
      });
    }

    counts() {
      const of = new Map();
      for (const row of this.rows) of.set(row.state, (of.get(row.state) ?? 0) + 1);
      return [...states].filter(([key]) => of.get(key)).map(([key, { word, look }]) => [word, look, of.get(key)]);
    }

    label() {
      const parts = this.counts().map(([word, , number]) => `${count(number)} ${word}`);
      return `${cores[this.core]}: ${counted(this.rows.length, "loop")} by address; ${parts.join(", ")}. The table below has the same.`;
    }

    legend() {
      const out = [element("strong", {}, cores[this.core]), `: ${counted(this.rows.length, "loop")} by address in ${counted(total, "byte")} of code`];
      for (const [word, look, number] of this.counts()) {
        out.push(element("span", { class: "key" }, element("i", { class: look }), `${word} ${count(number)}`));
      }
      if (this.kept.length < this.rows.length) out.push(`; ${counted(this.kept.length, "loop")} shown, the others pale`);
      if (scan.weighed) out.push("; the higher, the larger its share of all cycles");
      if (this.rows.length && scan.builds) out.push("; addresses of build B");
      return out;
    }

    x(position) {
      return this.left + ((position % across) / across) * (this.width - this.left - 3) + 1;
    }

    draw() {
      this.width = Math.max(this.box.clientWidth, 240);
      this.narrow = this.width < 560;
      this.left = this.narrow ? 0 : 140;
      this.pitch = this.narrow ? PITCH + 12 : PITCH;
      const high = lines * this.pitch + 4;
      this.picture.setAttribute("viewBox", `0 0 ${this.width} ${high}`);
      this.picture.style.height = `${high}px`;
      const paths = new Map(LOOKS.flatMap((look) => [[`${look} pale`, []], [look, []]]));
      for (const row of this.rows) {
        const { look } = states.get(row.state);
        const [x, y] = this.spot(row);
        paths.get(row.kept ? look : `${look} pale`).push(`M${x.toFixed(1)} ${y}v${-height(row, look).toFixed(1)}`);
      }
      const names = Array.from({ length: lines }, (_, n) => {
        const y = n * this.pitch + this.base();
        return [
          svg("line", { class: "base", x1: this.left, x2: this.width, y1: y + 0.5, y2: y + 0.5 }),
          svg("text", this.narrow ? { x: 0, y: y - HIGH - 3 } : { x: 0, y: y - 2 }, name(n * across)),
        ];
      }).flat();
      const edges = starts.slice(1).map((position) => {
        const y = Math.floor(position / across) * this.pitch + this.base();
        return svg("line", { class: "section", x1: this.x(position), x2: this.x(position), y1: y + 3, y2: y - HIGH });
      });
      this.pointer = svg("circle", { class: "pointer", r: 5, visibility: "hidden" });
      this.picture.replaceChildren(...names, ...edges,
        ...[...paths].filter(([, d]) => d.length).map(([kind, d]) => svg("path", { class: kind, d: d.join("") })), this.pointer);
    }

    base() {
      return this.pitch - 3;
    }

    spot(row) {
      const position = at(row.b);
      return [this.x(position), Math.floor(position / across) * this.pitch + this.base()];
    }

    // The loop that is meant by a place of the map: of those near it the one that stands out most.
    near(event) {
      const frame = this.picture.getBoundingClientRect();
      const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
      const line = Math.floor(y / this.pitch);
      let best = null;
      for (const row of this.kept) {
        const [its, base] = this.spot(row);
        if (Math.floor(base / this.pitch) !== line || Math.abs(its - x) > 6) continue;
        const rank = LOOKS.indexOf(states.get(row.state).look) * 10 - Math.abs(its - x);
        if (!best || rank > best[0]) best = [rank, row];
      }
      return best?.[1];
    }

    point(event) {
      const row = this.near(event);
      this.picture.style.cursor = row ? "pointer" : "";
      if (row) this.tell(row);
    }

    tell(row) {
      const [x, y] = this.spot(row);
      this.pointer.setAttribute("cx", x);
      this.pointer.setAttribute("cy", y - HIGH / 2);
      this.pointer.setAttribute("visibility", "visible");
      pointed.textContent = said(row);
    }

    mark(current) {
      this.current = current;
      if (current >= 0) this.tell(this.stops[current]);
      else this.pointer.setAttribute("visibility", "hidden");
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey || !this.stops.length) return;
      const last = this.stops.length - 1;
      const now = this.current;
      const line = (n) => Math.floor(at(this.stops[n].b) / across);
      const find = (from, step) => {
        let n = from;
        while (n >= 0 && n <= last && line(n) === line(from)) n += step;
        return n;
      };
      const to = {
        ArrowRight: now + 1, ArrowLeft: now < 0 ? last : now - 1, Home: 0, End: last,
        ArrowDown: now < 0 ? 0 : find(now, 1), ArrowUp: now < 0 ? last : find(now, -1),
      }[event.key];
      if (to !== undefined) this.mark(Math.max(0, Math.min(to, last)));
      else if (event.key === "Enter" && now >= 0) table.reveal(this.stops[now]);
      else return;
      event.preventDefault();
    }
  }

  const hint = "Point at a loop, or step from one to the next with the arrow keys when the map has the focus.";
  let drawn = [];

  // A map for each core among the rows; what is not kept by a filter is pale.
  function fill(core) {
    if (!shown.count) {
      place.textContent = "There is no loop to show.";
      return;
    }
    const chosen = core === "" ? [...cores.keys()] : [cores.indexOf(core)];
    drawn = chosen.map((c) => new Map_(c, scan.rows.filter((row) => row.core === c)));
    place.replaceChildren(...drawn.map((map) => map.figure));
    for (const map of drawn) map.draw();
    pointed.textContent = hint;
  }

  new ResizeObserver(() => drawn.forEach((map) => {
    if (map.width !== Math.max(map.box.clientWidth, 240)) map.draw();
  })).observe(place);

  return { fill };
})();
