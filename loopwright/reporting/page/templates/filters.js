"use strict";
// Filters: a row or a figure is shown unless it is of another core, model, variant or notion.
(() => {
  const form = document.querySelector(".filters");
  const status = document.getElementById("shown");
  const rows = [...document.querySelectorAll("main tbody tr")];
  const figures = [...document.querySelectorAll("main figure")];
  const kernels = [...document.querySelectorAll("[data-kernel]")];

  const wanted = () => Object.fromEntries(new FormData(form));

  function fits(element, choice) {
    return ["core", "model", "variant", "notion"].every((name) => {
      const own = element.dataset[name];
      return !choice[name] || own === undefined || own === choice[name];
    });
  }

  function apply() {
    const choice = wanted();
    const kernel = choice.kernel || choice.variant.split("/").slice(0, 2).join("/");
    for (const one of kernels) one.hidden = Boolean(kernel) && one.dataset.kernel !== kernel;
    for (const one of [...rows, ...figures]) {
      if (!one.dataset.kernel) one.hidden = !fits(one, choice);
    }
    const seen = (list) => list.filter((one) => !one.hidden && !one.closest("[hidden]")).length;
    status.textContent =
      `${seen(rows)} of ${rows.length} rows, ${seen(figures)} of ${figures.length} figures shown`;
    const set = Object.entries(choice).filter(([, value]) => value);
    const hash = new URLSearchParams(set).toString();
    if (hash) history.replaceState(null, "", `#show:${hash}`);
    else if (location.hash.startsWith("#show:")) history.replaceState(null, "", "#");
  }

  function restore() {
    if (!location.hash.startsWith("#show:")) return;
    for (const [name, value] of new URLSearchParams(location.hash.slice(6))) {
      const select = form.elements.namedItem(name);
      if (select && [...select.options].some((o) => o.value === value)) select.value = value;
    }
  }

  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  form.hidden = false;
  restore();
  apply();

  // Tables sort by the head that is pressed: numbers by value, dashes last.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table.tBodies[0], column, down ? -1 : 1, head.classList.contains("number"));
      });
    });
  }

  function sort(body, column, sign, number) {
    const value = (row) => {
      const cell = row.cells[column];
      if (!number) return cell.textContent;
      return cell.dataset.order === undefined ? NaN : Number(cell.dataset.order);
    };
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (!number) return sign * x.localeCompare(y);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    };
    body.append(...[...body.rows].sort(order));
  }

  // On paper nothing can be opened: print all commands.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.again:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
})();
