"use strict";
// What is shown: by function, core, state, fix, section; the address keeps it, to be passed on.
(() => {
  const { rows, words, cores, shown } = scan;
  const form = document.querySelector(".filters");
  const status = document.getElementById("shown");
  let opened = null;

  // What there is to look for in a loop: its routine, and its address.
  const searched = rows.map((row) => {
    const [side, n] = scan.of(row);
    return `${side.where(n)} ${side.hex(n)}`.toLowerCase();
  });

  function fits(row, choice) {
    const [side, n] = scan.of(row);
    return (!choice.core || cores[row.core] === choice.core)
      && (!choice.state || (choice.state === "changed" ? scan.changed(row) : row.state === choice.state))
      && (!choice.fix || (side === shown && words[side.kind[n]] === choice.fix))
      && (!choice.section || side.sectionName(n) === choice.section)
      && (!choice.file || side.file(n) === choice.file);
  }

  function apply() {
    const choice = Object.fromEntries(new FormData(form));
    const text = choice.name.trim().toLowerCase();
    const chosen = [];
    rows.forEach((row, n) => {
      row.kept = (!text || searched[n].includes(text)) && fits(row, choice);
      if (row.kept) chosen.push(row);
    });
    table.fill(chosen);
    maps.fill(choice.core);
    status.textContent = `${view.count(chosen.length)} of ${view.counted(rows.length, "row")} shown`;
    note();
  }

  function note() {
    const set = [...new FormData(form)].filter(([name, value]) => value && !(name === "state" && value === "changed"));
    if (opened) set.push(["loop", scan.key(opened)]);
    const hash = new URLSearchParams(set).toString();
    if (hash) history.replaceState(null, "", `#show:${hash}`);
    else if (location.hash.startsWith("#show:")) history.replaceState(null, "", "#");
  }

  function restore() {
    if (!location.hash.startsWith("#show:")) return null;
    const asked = new URLSearchParams(location.hash.slice(6));
    for (const [name, value] of asked) {
      const field = form.elements.namedItem(name);
      if (field && (!field.options || [...field.options].some((o) => o.value === value))) field.value = value;
    }
    return rows.find((row) => scan.key(row) === asked.get("loop"));
  }

  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 150);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  document.addEventListener("opened", (event) => {
    opened = event.detail;
    note();
  });
  form.hidden = false;
  const asked = restore();
  apply();
  if (asked) table.reveal(asked);
})();
