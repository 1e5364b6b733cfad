/** One core in full: annotated listing, limits, timeline. */

import type { Answer, Core, Details as Told, Event, Region } from "./answers";
import { word } from "./words";

const CYCLES = 80;
const LINE = 64;

export interface Row {
  text: string;
  bytes: string;
  /** Distance from the loop's first byte. */
  from: number;
  length: number;
}

export function rows(region: Region): Row[] {
  let from = 0;
  return region.Instructions.map((text, number) => {
    const bytes = region.InstructionInfoView.InstructionList[number].Encoding;
    const row = { text, bytes: bytes.replace(/(..)(?!$)/g, "$1 "), from, length: bytes.length / 2 };
    from += row.length;
    return row;
  });
}

function Code({ text }: { text: string }) {
  const [mnemonic, ...operands] = text.split("\t");
  return (
    <>
      <b>{mnemonic}</b> {operands.join(" ")}
    </>
  );
}

/** The ports of each instruction: uses an iteration, by port. */
function pressure(told: Told, region: Region) {
  const all = told.TargetInfo.Resources.map((name) => name.replace("port ", ""));
  const uses = region.Instructions.map(() => all.map(() => 0));
  for (const use of region.ResourcePressureView.ResourcePressureInfo) {
    uses[use.InstructionIndex][use.ResourceIndex] = use.ResourceUsage;
  }
  const sums = all.map((_, port) => uses.reduce((sum, row) => sum + row[port], 0));
  const used = all.map((_, port) => port).filter((port) => sums[port] >= 0.005);
  const idle = all.filter((_, port) => !used.includes(port));
  const kept = (row: number[]) => used.map((port) => row[port]);
  const names = used.map((port) => all[port]);
  return { names, idle, uses: uses.map(kept), sums: kept(sums) };
}

function Listing({ told, region, at }: { told: Told; region: Region; at: number }) {
  const { names, idle, uses, sums } = pressure(told, region);
  const busiest = Math.max(...sums, 0.01);
  const chain = region.LimitsView.find((limit) => limit.Limit === "dependencies");
  const inChain = new Set(chain?.Instructions ?? []);
  const cell = (value: number, most: number) => (
    <td class="port" style={{ "--share": Math.min(1, value / most).toFixed(3) }}>
      {value < 0.005 ? "" : value.toFixed(2)}
    </td>
  );
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Listing">
      <table>
        <caption>
          Listing, uses of each port an iteration, and the longest loop-carried dependency (●).
          {idle.length > 0 && ` Ports that are not used: ${idle.join(" ")}.`}
        </caption>
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden">Number</span>#
            </th>
            <th scope="col">Line offset</th>
            <th scope="col">Bytes</th>
            <th scope="col">Instruction</th>
            <th scope="col">Chain</th>
            <th scope="col">Uops</th>
            <th scope="col">Latency</th>
            {names.map((name) => (
              <th scope="col" key={name}>
                <span class="hidden">port </span>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows(region).map((row, number) => {
            const start = at + row.from;
            const end = start + row.length;
            const begins = number > 0 && start % LINE === 0;
            const crosses = Math.floor(start / LINE) !== Math.floor((end - 1) / LINE);
            const info = region.InstructionInfoView.InstructionList[number];
            return (
              <tr key={number} class={begins ? "begins" : crosses ? "crosses" : ""}>
                <th scope="row">{number}</th>
                <td class="quiet">{start % LINE}</td>
                <td class="bytes">{row.bytes}</td>
                <td class="code">
                  <Code text={row.text} />
                  {crosses && <span class="tag">crosses the line</span>}
                  {begins && <span class="tag">a new line</span>}
                </td>
                <td class="chain">{inChain.has(number) ? "●" : ""}</td>
                <td>{info.NumMicroOpcodes}</td>
                <td>{info.Latency}</td>
                {uses[number].map((value) => cell(value, Math.max(1, busiest)))}
              </tr>
            );
          })}
          <tr class="sum">
            <th scope="row" colSpan={7}>
              All
            </th>
            {sums.map((value) => cell(value, Math.max(1, busiest)))}
          </tr>
        </tbody>
      </table>
    </div>
  );
}

function Limits({ region }: { region: Region }) {
  const limits = [...region.LimitsView].sort((a, b) => (b.Cycles ?? 0) - (a.Cycles ?? 0));
  const most = Math.max(...limits.map((limit) => limit.Cycles ?? 0), 0.01);
  const chain = limits.find((limit) => limit.Limit === "dependencies" && limit.Instructions.length);
  return (
    <section>
      <h3>Limits</h3>
      <table class="limits">
        <caption>Cycles an iteration if the core had this limit alone</caption>
        <thead class="hidden">
          <tr>
            <th scope="col">Limit</th>
            <th scope="col">Cycles</th>
            <th scope="col">Binds</th>
          </tr>
        </thead>
        <tbody>
          {limits.map((limit) => (
            <tr key={limit.Limit} class={limit.Binds ? "binds" : ""}>
              <th scope="row">
                {limit.Limit} {limit.Ports}
              </th>
              <td class="bar" style={{ "--share": ((limit.Cycles ?? 0) / most).toFixed(3) }}>
                {limit.Cycles?.toFixed(2) ?? "not known"}
              </td>
              <td>{limit.Binds ? "binds" : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {chain && (
        <>
          <h3>Longest loop-carried dependency</h3>
          <p>{chain.Cycles?.toFixed(2)} cycles an iteration, through</p>
          <ol class="code">
            {chain.Instructions.map((number) => (
              <li key={number}>
                <Code text={region.Instructions[number]} />
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

interface Lane {
  head: string;
  instruction: number;
  dispatched: number;
  issued: number | null;
  executed: number | null;
  retired: number;
}

/** What each instruction does in each iteration, as llvm-mca's timeline has it. */
function lanes(events: Event[]): Lane[] {
  const own = new Map<string, Event[]>();
  for (const event of events) {
    if (event.CycleDispatched === null) continue;
    const head = `${event.Iteration},${event.Instruction}`;
    own.set(head, [...(own.get(head) ?? []), event]);
  }
  const known = (values: (number | null)[]) => values.filter((value) => value !== null);
  const least = (values: (number | null)[]) =>
    known(values).length ? Math.min(...known(values)) : null;
  const most = (values: (number | null)[]) =>
    known(values).length ? Math.max(...known(values)) : null;
  const found: Lane[] = [];
  for (const [head, list] of own) {
    const retired = most(list.map((event) => event.CycleRetired));
    if (retired === null) continue;
    found.push({
      head,
      instruction: list[0].Instruction,
      dispatched: least(list.map((event) => event.CycleDispatched))!,
      issued: least(list.map((event) => event.CycleIssued)),
      executed: most(list.map((event) => event.CycleExecuted)),
      retired,
    });
  }
  const first = Math.min(...found.map((lane) => lane.dispatched));
  const moved = (cycle: number | null) => (cycle === null ? null : cycle - first);
  return found.map((lane) => ({
    ...lane,
    dispatched: lane.dispatched - first,
    issued: moved(lane.issued),
    executed: moved(lane.executed),
    retired: lane.retired - first,
  }));
}

function mark(lane: Lane, cycle: number): string {
  const { dispatched, issued, retired } = lane;
  const executed = lane.executed ?? dispatched;
  if (cycle < dispatched || cycle > retired) return cycle % 5 === 0 ? "." : " ";
  if (cycle === dispatched) return "D";
  if (cycle === retired) return "R";
  if (issued === null) return "-";
  if (cycle < issued) return "=";
  if (cycle < executed) return "e";
  return cycle === executed ? "E" : "-";
}

const KINDS: Record<string, string> = { "=": "waits", e: "runs", E: "runs", D: "ends", R: "ends" };

function Timeline({ region }: { region: Region }) {
  const all = lanes(region.TimelineView.TimelineInfo).filter((lane) => lane.dispatched < CYCLES);
  const end = Math.min(CYCLES, Math.max(...all.map((lane) => lane.retired + 1), 1));
  return (
    <section>
      <h3>Timeline</h3>
      <p class="quiet">
        First iterations, a column a cycle: <b>D</b> dispatched, <b>=</b> waits for operands or a
        port, <b>e</b> executes, <b>E</b> result known, <b>-</b> waits to retire, <b>R</b> retired
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Timeline">
        <pre>
          {all.map((lane, number) => {
            const marks = Array.from({ length: end }, (_, cycle) => mark(lane, cycle)).join("");
            const parts = marks.match(/[eE]+|=+|[DR]|[-. ]+/g) ?? [];
            const begins = number > 0 && all[number - 1].instruction > lane.instruction;
            return (
              <div key={lane.head} class={begins ? "iteration" : ""}>
                <span class="quiet">{`[${lane.head}]`.padEnd(8)}</span>
                {parts.map((part, place) => (
                  <span key={place} class={KINDS[part[0]] ?? "quiet"}>
                    {part}
                  </span>
                ))}
                {"  "}
                {region.Instructions[lane.instruction].replace("\t", " ")}
              </div>
            );
          })}
        </pre>
      </div>
    </section>
  );
}

export function Details({ core, answer }: { core: Core; answer: Answer | undefined }) {
  const region = answer?.details?.CodeRegions[0];
  if (answer?.error) return <p class="error">{answer.error}</p>;
  if (!answer?.details || !region || answer.at === undefined) return <p class="quiet">…</p>;
  const { CyclesPerIteration: cycles, Bottleneck: why, IPC, Kind } = region.SummaryView;
  return (
    <>
      <p>
        <b>{cycles.toFixed(2)} cycles an iteration</b>
        {Kind === "unrolled" && " (no branch back at its end: copies follow each other)"}, limited
        by {word(why)}; {IPC.toFixed(2)} instructions a cycle over the first iterations.
      </p>
      {region.Notes.map((note) => (
        <p key={note} class="quiet">
          Not simulated or assumed: {note}
        </p>
      ))}
      <Listing told={answer.details} region={region} at={answer.at} />
      <div class="pair">
        <Limits region={region} />
        <Timeline region={region} />
      </div>
      <p class="quiet">
        {core.name}, simulated: {core.accuracy}.
      </p>
    </>
  );
}
