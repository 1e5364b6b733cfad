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
})();
