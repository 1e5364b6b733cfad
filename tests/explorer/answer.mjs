// Answers calls of the simulator in WebAssembly: one JSON array [call, input] a line, one answer a line.
import { readFileSync } from "node:fs";

const [wasm, module] = process.argv.slice(2);
const { simulator } = await import(module);
const run = simulator(await WebAssembly.compile(readFileSync(wasm)));
const lines = readFileSync(0, "utf8").trimEnd().split("\n");
for (const line of lines) console.log(JSON.stringify(run(...JSON.parse(line))));
