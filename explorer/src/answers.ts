/** What the simulator answers. */

export type Input = string | Uint8Array;

export interface Core {
  id: string;
  name: string;
  isa: "x86_64" | "arm64";
  /** Whether the simulator was held to loops of this core and was right. */
  validated: boolean;
  /** How far off it was there, in words. */
  accuracy: string;
}

export interface Loop {
  name: string;
  address: number;
  /** Machine code in hex. */
  code: string;
}

export interface Loops {
  isa: Core["isa"];
  loops: Loop[];
  /** Loops that jump around code, call, or repeat a string instruction. */
  left_out: number;
  notes: string[];
  error?: string;
}

/** Cycles an iteration at each of 64 code offsets; null where no code can lie. */
export type Offsets = (number | null)[];

export interface Event {
  Iteration: number;
  Instruction: number;
  CycleDispatched: number | null;
  CycleIssued: number | null;
  CycleExecuted: number | null;
  CycleRetired: number | null;
}

export interface Region {
  Instructions: string[];
  Notes: string[];
  SummaryView: {
    Bottleneck: string;
    CyclesPerIteration: number;
    IPC: number;
    Kind: "loop" | "unrolled";
  };
  LimitsView: {
    Limit: string;
    Cycles: number | null;
    Ports: string;
    Instructions: number[];
    Binds: boolean;
  }[];
  InstructionInfoView: {
    InstructionList: {
      Encoding: string;
      Latency: number;
      NumMicroOpcodes: number;
    }[];
  };
  ResourcePressureView: {
    ResourcePressureInfo: {
      InstructionIndex: number;
      ResourceIndex: number;
      ResourceUsage: number;
    }[];
  };
  TimelineView: { TimelineInfo: Event[] };
}

export interface Details {
  CodeRegions: Region[];
  TargetInfo: { Resources: string[] };
}

/** One core's answer about the loop at hand. */
export interface Answer {
  offsets?: Offsets;
  details?: Details;
  /** Code offset that the details are of. */
  at?: number;
  error?: string;
}

const ALIKE = 0.005;

/** Figures by offset, equal ones of a row as a range: `1.00 at 0-36, 2.00 at 37-63`. */
export function folded(offsets: Offsets): string {
  const runs: { cycles: string; from: number; to: number }[] = [];
  offsets.forEach((value, offset) => {
    if (value === null) return;
    const cycles = value.toFixed(2);
    const last = runs.at(-1);
    if (last?.cycles === cycles) last.to = offset;
    else runs.push({ cycles, from: offset, to: offset });
  });
  if (runs.length === 1) return `${runs[0].cycles} at every offset`;
  const range = ({ from, to }: { from: number; to: number }) =>
    from === to ? from : `${from}-${to}`;
  return runs.map((run) => `${run.cycles} at ${range(run)}`).join(", ");
}

/** The least and the most of the figures. */
export function extremes(offsets: Offsets): [number, number] {
  const known = offsets.filter((value) => value !== null);
  return [Math.min(...known), Math.max(...known)];
}

/** How a figure compares with the best: as `loopwright scan` has it, hurt is 1.3 times the best or more. */
export function harm(cycles: number, best: number): "alike" | "slower" | "hurt" {
  if (cycles >= best * 1.3 - ALIKE) return "hurt";
  return cycles >= best * 1.05 ? "slower" : "alike";
}
