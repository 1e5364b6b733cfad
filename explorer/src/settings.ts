/** What the page is set to, and its form behind the # of a link. */

export interface Settings {
  /** Text of the editor. */
  text: string;
  /** Instruction set of the text; `any` where the text tells. */
  set: "any" | "x86" | "arm64";
  /** Number of the loop among those of the text. */
  loop: number;
  /** Ids of the cores side by side. */
  cores: string[];
  /** Id of the core whose details are shown. */
  focus: string;
  /** Code offset. */
  at: number;
}

export function fragment(settings: Settings): string {
  const { text, set, loop, cores, focus, at } = settings;
  const fields = new URLSearchParams({ text, at: String(at), cores: cores.join(","), focus });
  if (set !== "any") fields.set("set", set);
  if (loop) fields.set("loop", String(loop));
  return `#${fields}`;
}

/** The settings of a link; what it does not hold, or holds wrongly, is as in `otherwise`. */
export function settingsOf(link: string, otherwise: Settings, known: string[]): Settings {
  const fields = new URLSearchParams(link.replace(/^#/, ""));
  const text = fields.get("text");
  if (text === null) return otherwise;
  const number = (name: string, most: number) => {
    const value = Number(fields.get(name));
    return Number.isInteger(value) && value >= 0 && value <= most ? value : 0;
  };
  const cores = (fields.get("cores") ?? "").split(",").filter((id) => known.includes(id));
  const focus = fields.get("focus") ?? "";
  const set = fields.get("set");
  return {
    text,
    set: set === "x86" || set === "arm64" ? set : "any",
    loop: number("loop", 1e6),
    cores: cores.length ? cores : otherwise.cores,
    focus: known.includes(focus) ? focus : otherwise.focus,
    at: number("at", 63),
  };
}
