"use strict";
(() => {
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
})();
