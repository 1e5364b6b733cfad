/** What one quotes of the page in a mail or a commit message: plain text, in lines of 72 characters. */

import { extremes, folded, type Answer, type Core } from "./answers";
import { rows } from "./details";
import { word } from "./words";

const WIDTH = 72;

/** Break a text at commas and blanks. */
function wrapped(text: string, indent: string): string {
  const lines: string[] = [];
  let line = indent.trimEnd() === indent ? indent : "";
  for (const part of text.split(" ")) {
    if (line.trim() && line.length + 1 + part.length > WIDTH) {
      lines.push(line);
      line = "";
    }
    line = line.trim() ? `${line} ${part}` : indent + part;
  }
  return [...lines, line].join("\n");
}

export function quote(
  cores: Core[],
  answers: Record<string, Answer>,
  focus: Core | undefined,
  at: number,
  version: string,
  link: string,
): string {
  const region = focus && answers[focus.id]?.details?.CodeRegions[0];
  if (!focus || !region) return "";
  const code = rows(region);
  const last = code[code.length - 1];
  const length = last.from + last.length;
  const lines = code.map((row) => {
    const crosses =
      Math.floor((at + row.from) / 64) !== Math.floor((at + row.from + row.length - 1) / 64);
    const offset = String((at + row.from) % 64).padStart(4);
    const text = row.text.replace("\t", " ");
    return `${offset}: ${row.bytes.padEnd(24)} ${text}${crosses ? "   <- line boundary" : ""}`;
  });
  const figures = cores.flatMap((core) => {
    const offsets = answers[core.id]?.offsets;
    const here = offsets?.[at];
    if (!offsets || here === undefined || here === null) return [];
    const [best] = extremes(offsets);
    const times = here > best * 1.005 ? `, ${(here / best).toFixed(2)} times its best` : "";
    const why = answers[core.id]?.details?.CodeRegions[0].SummaryView.Bottleneck;
    return [
      wrapped(`${core.name}: ${here.toFixed(2)} here${times}${why ? ` (${word(why)})` : ""}`, "  "),
      wrapped(folded(offsets), "    "),
      wrapped(core.accuracy, "    "),
    ];
  });
  return [
    `A loop of ${code.length} instructions, ${length} bytes, at code offset ${at} of 64:`,
    "",
    ...lines,
    "",
    "Cycles an iteration by code offset, simulated:",
    ...figures,
    "",
    `loopwright ${version}, loop explorer`,
    ...(link.length < 1000 ? [link] : []),
    "",
  ].join("\n");
}
