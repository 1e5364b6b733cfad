"use strict";
// Which timeline is shown: of a variant, on a core, at a code offset.
(() => {
  const { words, timelines, origin } = JSON.parse(document.getElementById("timelines").textContent);
  const by = (id) => document.getElementById(id);
  const [variants, cores, offsets] = ["t-variant", "t-core", "t-offset"].map(by);
  if (!timelines.length) return;

  const full = (t) => `${t.kernel}/${t.variant}`;
  const unique = (list) => [...new Set(list)];

  function fill(select, values, labels = values) {
    const before = select.value;
    select.replaceChildren(
      ...values.map((value, n) => new Option(labels[n], value, false, String(value) === before)),
    );
  }

  function choose() {
    const ofVariant = timelines.filter((t) => full(t) === variants.value);
    fill(cores, unique(ofVariant.map((t) => t.core)));
    const ofCore = ofVariant.filter((t) => t.core === cores.value);
    fill(
      offsets,
      ofCore.map((t) => t.offset),
      ofCore.map((t) => `${t.offset}: ${t.why}, ${t.cycles.toFixed(2)} cycles`),
    );
    const one = ofCore.find((t) => String(t.offset) === offsets.value);
    const title = `${full(one)} on ${one.core} at code offset ${one.offset}`;
    showTimeline(one, words, title, origin);
  }

  for (const select of [variants, cores, offsets]) select.addEventListener("change", choose);
  fill(variants, unique(timelines.map(full)));
  choose();
})();
