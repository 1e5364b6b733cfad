/**
 * The simulator in WebAssembly, for a browser or node. models/pipeline/src/wasm.rs lists its calls.
 *
 * @typedef {(call: string[], input?: string | Uint8Array) => any} Simulator
 */

/**
 * @param {WebAssembly.Module} module
 * @returns {Simulator}
 */
export function simulator(module) {
  let instance = new WebAssembly.Instance(module);
  return (call, input = "") => {
    const encoder = new TextEncoder();
    const head = encoder.encode([...call, "", ""].join("\0"));
    const body = typeof input === "string" ? encoder.encode(input) : input;
    const { memory, reserve, answer, answered } = /** @type {any} */ (instance.exports);
    try {
      const at = reserve(head.length + body.length);
      const room = new Uint8Array(memory.buffer, at, head.length + body.length);
      room.set(head);
      room.set(body, head.length);
      const length = answer();
      return JSON.parse(
        new TextDecoder().decode(new Uint8Array(memory.buffer, answered(), length)),
      );
    } catch (fault) {
      // What a panic leaves behind is not to be called again.
      instance = new WebAssembly.Instance(module);
      return { error: `the simulator stopped: ${fault}` };
    }
  };
}
