"use strict";
// What all parts of the page draw with.
const view = (() => {
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    set(made, attributes);
    made.append(...children);
    return made;
  }

  function svg(tag, attributes = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    set(made, attributes);
    made.append(...children);
    return made;
  }

  function set(made, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === undefined) continue;
      made.setAttribute(name, value === true ? "" : value);
    }
  }

  const figure = (value, digits = 2) =>
    value === undefined || value === null || Number.isNaN(value)
      ? "\u2014"
      : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const count = (value) => value.toLocaleString("en");
  const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

  // Text in which `...` is code.
  function coded(text) {
    return text.split("`").map((part, n) => (n % 2 ? element("code", {}, part) : part));
  }

  // A table in a box that scrolls sideways; heads are [text, is a number].
  function table(caption, heads, rows, kind = "cards") {
    const head = element("tr", {}, ...heads.map(([text, number]) =>
      element("th", { scope: "col", class: number && "number" }, text)));
    const body = element("tbody");
    for (const cells of rows) {
      body.append(element("tr", {}, ...cells.map((cell, n) => n
        ? element("td", { class: heads[n][1] && "number", "data-head": heads[n][0] }, cell)
        : element("th", { scope: "row" }, cell))));
    }
    return box(element("table", { class: kind }, element("caption", {}, caption), element("thead", {}, head), body));
  }

  const box = (inside, label = "Table, scrolls sideways") =>
    element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, inside);

  return { element, svg, figure, count, counted, coded, table, box };
})();
