/** Start: the simulator out of the page, then the page itself. */

import { render } from "preact";
import type { Core } from "./answers";
import { App } from "./app";
import { Pool } from "./pool";
import { simulator } from "./simulator.js";

const text = (id: string) => document.getElementById(id)!.textContent!;

async function compiled(): Promise<WebAssembly.Module> {
  const packed = await fetch(`data:application/octet-stream;base64,${text("simulator")}`);
  const stream = packed.body!.pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

async function start(): Promise<void> {
  const place = document.getElementById("page")!;
  try {
    const module = await compiled();
    const told = JSON.parse(text("cores"));
    const cores: Core[] = simulator(module)(["cores"]).map((core: Core) => ({
      ...core,
      ...(told.cores[core.id] ?? { validated: false, accuracy: "not validated" }),
    }));
    const pool = new Pool(module, text("worker"));
    render(<App pool={pool} cores={cores} version={told.version} />, place);
  } catch (fault) {
    place.textContent = `The simulator does not start in this browser: ${fault}`;
  }
}

void start();
