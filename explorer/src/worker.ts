/** A thread that holds a simulator: first comes its module, then numbered calls. */

import { simulator } from "./simulator.js";

let run: ReturnType<typeof simulator> | undefined;

onmessage = ({ data }: MessageEvent) => {
  if (data instanceof WebAssembly.Module) {
    run = simulator(data);
  } else {
    postMessage({ number: data.number, value: run?.(data.call, data.input) });
  }
};
