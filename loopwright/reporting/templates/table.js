"use strict";
// The table of rows: sorted by any column, so many at a time, each opened on demand.
const table = (() => {
  const { element, figure, count, counted, box } = view;
  const { words, cores, shown, before, states } = scan;
  const AT_ONCE = 100;
  const place = document.getElementById("table");
  const cost = (row) => (row.b >= 0 ? shown.cost(row.core, row.b) : null);
  const past = (row) => (row.a >= 0 ? before.cost(row.core, row.a) : null);
  const number = (get, digits = 2) => ({ number: true, get, text: (row) => figure(get(row), digits) });
  const slower = (row) => {
    const [a, b] = [past(row), cost(row)];
    return a && b ? 100 * (b.here / a.here - 1) : undefined;
  };
  const signed = (value) => (value > 0 ? `+${figure(value, 1)}` : figure(value, 1));
  const own = (row) => scan.of(row);
  const text = (get) => ({ get, text: get });
  const limit = (row) => (row.b >= 0 ? words[shown.costs[row.core].limit[row.b]] ?? "" : "").split(" through ")[0];
  const boundary = (row) => {
    const found = row.b >= 0 && shown.costs[row.core].boundary[row.b];
    return found ? `${found[0]} B ${words[found[1]]}`.trim() : "";
  };
  const address = (which) => ({
    get: (row) => { const [s, n] = which(row); return s && n >= 0 ? Number(s.address(n)) : undefined; },
    text: (row) => { const [s, n] = which(row); return s && n >= 0 ? s.hex(n) : ""; },
    number: true,
  });
  const file = (row) => { const [s, n] = own(row); return s.file(n); };
  const name = { head: "loop", ...text((row) => { const [s, n] = own(row); return s.where(n); }) };
  const core = { head: "core", ...text((row) => cores[row.core]) };
  const state = { head: scan.builds ? "change" : "state", get: (row) => scan.data.states.findIndex(([key]) => key === row.state), text: (row) => states.get(row.state).word };
  const fix = { head: "fix", ...text((row) => (row.b >= 0 ? words[shown.fix[row.b]] : "")), wide: true };
  const error = (row) => { const [s, n] = own(row); return words[s.costs[row.core].error[n]] ?? ""; };
  const share = (row) => shown.share[row.b];
  const saved = (row) => { const c = cost(row); return c ? (share(row) * c.lost) / c.here : undefined; };
  const all = scan.builds ? [
    name, { head: "member", ...text(file) }, state, core,
    { head: "slower, %", ...number(slower), text: (row) => signed(slower(row)) },
    { head: "A: offset, B", ...number((row) => (row.a >= 0 ? before.offset(row.a) : undefined), 0) },
    { head: "A: cycles/iteration", ...number((row) => past(row)?.here) },
    { head: "B: offset, B", ...number((row) => (row.b >= 0 ? shown.offset(row.b) : undefined), 0) },
    { head: "B: cycles/iteration", ...number((row) => cost(row)?.here) },
    { head: "B: at best", ...number((row) => cost(row)?.best) },
    { head: "A: address", ...address((row) => [before, row.a]) },
    { head: "B: address", ...address((row) => [shown, row.b]) },
    { head: "B: boundary", ...text(boundary) }, fix, { head: "why no figure", ...text(error) },
  ] : [
    name, { head: "member", ...text(file) }, { head: "address", ...address(own) }, core, state,
    ...(scan.weighed ? [
      { head: "share of all cycles, %", ...number(share) },
      { head: "would save, %", ...number(saved) },
    ] : []),
    { head: "offset, B", ...number((row) => shown.offset(row.b), 0) },
    { head: "cycles/iteration", ...number((row) => cost(row)?.here) },
    { head: "at best", ...number((row) => cost(row)?.best) },
    { head: "at worst", ...number((row) => cost(row)?.worst) },
    { head: "lost", ...number((row) => cost(row)?.lost) },
    { head: "times best", ...number((row) => cost(row)?.times) },
    fix, { head: "boundary", ...text(boundary) }, { head: "limit", ...text(limit), wide: true },
    { head: "why no figure", ...text(error) },
  ];
  // What no row has has no column.
  const columns = all.filter((c) => !["member", "why no figure"].includes(c.head) || scan.rows.some((row) => c.text(row)));
  const first = scan.builds ? "change" : scan.weighed ? "would save, %" : "lost";
  let [by, sign] = [columns.findIndex((c) => c.head === first), scan.builds ? 1 : -1];
  const then = columns.findIndex((c) => c.head === (scan.builds ? "slower, %" : "times best"));
  let [rows, from, open] = [[], 0, null];

  const heads = columns.map((column, n) => {
    const button = element("button", { type: "button" }, column.head);
    const head = element("th", { scope: "col", class: column.number && "number" }, button);
    button.addEventListener("click", () => {
      [by, sign] = [n, by === n ? -sign : column.number ? -1 : 1];
      from = 0;
      sort();
      draw();
    });
    return head;
  });
  const body = element("tbody");
  const caption = element("caption");
  const frame = element("table", { class: "loops" }, caption, element("thead", {}, element("tr", {}, ...heads)), body);
  const pages = ["First", "Previous", "Next", "Last"].map((word) => element("button", { type: "button" }, word));
  const where = element("span", { role: "status", "aria-live": "polite" });
  const pager = element("nav", { class: "pager", "aria-label": "Pages of the table" }, ...pages, where);
  place.append(pager, box(frame));
  pages.forEach((button, n) => button.addEventListener("click", () => {
    const last = Math.max(Math.ceil(rows.length / AT_ONCE) - 1, 0) * AT_ONCE;
    from = [0, from - AT_ONCE, from + AT_ONCE, last][n];
    draw();
  }));

  function sort() {
    const keyed = rows.map((row) => [columns[by].get(row), columns[then].get(row), row]);
    const order = (x, y) => {
      if (typeof x === "string") return x < y ? -1 : x > y ? 1 : 0;
      const [a, b] = [x ?? NaN, y ?? NaN];
      return Number.isNaN(a) || Number.isNaN(b) ? sign * (Number.isNaN(a) - Number.isNaN(b)) : a - b;
    };
    keyed.sort((a, b) => sign * order(a[0], b[0]) || -order(a[1] ?? -1, b[1] ?? -1));
    rows = keyed.map(([, , row]) => row);
    heads.forEach((head, n) => {
      if (n === by) head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }

  function draw() {
    close();
    const until = Math.min(from + AT_ONCE, rows.length);
    caption.textContent = scan.builds
      ? "Loops of both builds on each core: cycles an iteration, predicted; press a head to sort, a loop to open it."
      : "Loops on each core: cycles an iteration at their code offset, at their best and at their worst one, predicted; press a head to sort, a loop to open it.";
    body.replaceChildren(...rows.slice(from, until).map(line));
    where.textContent = rows.length ? `rows ${count(from + 1)} to ${count(until)} of ${count(rows.length)}` : "no rows";
    [from > 0, from > 0, until < rows.length, until < rows.length].forEach((can, n) => { pages[n].disabled = !can; });
    pager.hidden = rows.length <= AT_ONCE;
  }

  function line(row) {
    const button = element("button", { type: "button", "aria-expanded": "false" }, name.text(row));
    const made = element("tr", { class: states.get(row.state).look }, element("th", { scope: "row" }, button));
    columns.slice(1).forEach((column) => made.append(element("td", {
      class: column.number ? "number" : column.wide && "wide", "data-head": column.head,
    }, column.text(row))));
    button.addEventListener("click", () => (open?.row === row ? close() : show(row, made, button)));
    row.line = made;
    return made;
  }

  function close() {
    if (!open) return;
    loop.leave();
    open.detail.remove();
    open.button.setAttribute("aria-expanded", "false");
    open.button.removeAttribute("aria-controls");
    open = null;
    document.dispatchEvent(new CustomEvent("opened", { detail: null }));
  }

  async function show(row, made, button) {
    close();
    const cell = element("td", { colspan: String(columns.length) }, "unpacking \u2026");
    const detail = element("tr", { class: "detail", id: "opened" }, cell);
    open = { row, detail, button };
    made.after(detail);
    button.setAttribute("aria-expanded", "true");
    button.setAttribute("aria-controls", "opened");
    document.dispatchEvent(new CustomEvent("opened", { detail: row }));
    try {
      const content = await loop.draw(row);
      cell.replaceChildren(content);
    } catch (error) {
      cell.textContent = `It cannot be shown: ${error.message}`;
    }
  }

  // Show the row of a loop wherever it is in the table, opened.
  function reveal(row) {
    const at = rows.indexOf(row);
    if (at < 0) return;
    if (at < from || at >= from + AT_ONCE) {
      from = at - (at % AT_ONCE);
      draw();
    }
    const button = row.line.querySelector("button");
    if (open?.row !== row) show(row, row.line, button);
    button.focus({ preventScroll: true });
    row.line.scrollIntoView({ block: "start" });
  }

  function fill(chosen) {
    rows = chosen;
    from = 0;
    sort();
    draw();
  }

  return { fill, reveal };
})();
