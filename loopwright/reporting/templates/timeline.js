"use strict";
// The timeline: a line an uop, a column a cycle, and what happens in the cycle in words.
// showTimeline(timeline, words, caption, origin) draws one into the page's viewer.
const showTimeline = (() => {
  const by = (id) => document.getElementById(id);
  const [slider, now, events, chart] = ["t-cycle", "t-now", "t-events", "t-chart"].map(by);
  const LETTERS = "FQD.IER"; // of the steps; the fourth is when operands are ready
  const HAPPENS = { F: "fetched", Q: "queued", D: "dispatched", I: "issued", E: "executed", R: "retired" };
  let uops = [];
  let columns = [];

  const unique = (list) => [...new Set(list)];

  function read(row, words) {
    const [iteration, instruction, text, what, port, waited, ...steps] = row;
    const at = steps.map((cycle, n) => [LETTERS[n], cycle]).filter(([l, c]) => l !== "." && c !== null);
    const lane = new Map();
    at.forEach(([letter, cycle], n) => {
      const end = n + 1 < at.length ? at[n + 1][1] : cycle + 1;
      for (let c = cycle; c < end; c++) lane.set(c, [c === cycle ? letter : "", letter]);
    });
    return {
      iteration, instruction, at, lane,
      text: words[text], what: words[what], port: words[port], waited: words[waited],
      last: Math.max(...at.map(([, cycle]) => cycle)),
    };
  }

  function element(tag, text = "", kind = "") {
    const made = document.createElement(tag);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function draw(timeline, words, title, origin) {
    uops = timeline.rows.map((row) => read(row, words));
    const last = Math.max(...uops.map((u) => u.last));
    const table = element("table");
    const caption = element("caption", title);
    const head = element("tr");
    const corner = element("th", "uop");
    corner.scope = "col";
    head.append(corner);
    columns = [];
    for (let c = 0; c <= last; c++) {
      const cell = element("th", String(c));
      cell.scope = "col";
      columns.push([cell]);
      head.append(cell);
    }
    const waits = element("th", "waited for");
    waits.scope = "col";
    head.append(waits);
    const body = element("tbody");
    uops.forEach((uop, n) => {
      const first = n === 0 || uops[n - 1].iteration !== uop.iteration;
      const line = element("tr", "", first ? "first" : "");
      const port = uop.port ? ` p${uop.port}` : "";
      const label = element("th", `${uop.iteration}.${uop.instruction} ${uop.text}${port}`);
      label.scope = "row";
      label.title = uop.what;
      line.append(label);
      for (let c = 0; c <= last; c++) {
        const [letter, kind] = uop.lane.get(c) ?? ["", ""];
        const cell = element("td", letter, kind);
        columns[c].push(cell);
        line.append(cell);
      }
      line.append(element("td", uop.waited, "why"));
      body.append(line);
    });
    const top = element("thead");
    top.append(head);
    table.append(caption, top, body);
    chart.replaceChildren(table);
    by("t-origin").replaceChildren(`${origin}; again by `, element("code", timeline.again));
    by("viewer").hidden = false;
    slider.max = last;
    step(Math.min(Number(slider.value), last));
  }

  function step(cycle) {
    const last = Number(slider.max);
    const at = Math.max(0, Math.min(cycle, last));
    slider.value = at;
    slider.setAttribute("aria-valuetext", `cycle ${at} of ${last}`);
    now.textContent = at;
    for (const cell of chart.querySelectorAll(".now")) cell.classList.remove("now");
    for (const cell of columns[at]) cell.classList.add("now");
    const said = Object.entries(HAPPENS).map(([letter, word]) => {
      const these = uops.filter((u) => u.at.some(([l, c]) => l === letter && c === at));
      const name = (u) => `${u.iteration}.${u.instruction} ${u.text}${letter === "X" && u.port ? ` on port ${u.port}` : ""}`;
      return these.length ? `${word}: ${unique(these.map(name)).join(", ")}` : "";
    });
    events.textContent = `Cycle ${at}. ${said.filter(Boolean).join("; ") || "nothing starts or ends"}.`;
    const head = columns[at][0];
    const [left, right] = [head.offsetLeft, head.offsetLeft + head.offsetWidth];
    const hidden = chart.querySelector("tbody th").offsetWidth;
    if (left < chart.scrollLeft + hidden) chart.scrollLeft = left - hidden;
    else if (right > chart.scrollLeft + chart.clientWidth) chart.scrollLeft = right - chart.clientWidth;
  }

  chart.addEventListener("keydown", (event) => {
    const at = Number(slider.value);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: Number(slider.max) }[event.key];
    if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    step(to);
  });
  slider.addEventListener("input", () => step(Number(slider.value)));
  return draw;
})();
