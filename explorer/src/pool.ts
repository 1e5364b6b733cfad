/** Threads with a simulator each. A core stays with one thread, which reads its tables once. */

import type { Input } from "./answers";

interface Task {
  number: number;
  call: string[];
  input: Input;
  /** Tasks of one topic that have not begun are dropped when a newer one comes. */
  topic: string;
  resolve: (value: unknown) => void;
}

class Thread {
  private readonly worker: Worker;
  private waiting: Task[] = [];
  private running: Task | undefined;

  constructor(source: string, module: WebAssembly.Module) {
    this.worker = new Worker(source);
    this.worker.postMessage(module);
    this.worker.onmessage = ({ data }) => {
      this.running?.resolve(data.value);
      this.running = undefined;
      this.next();
    };
  }

  add(task: Task, first: boolean): void {
    this.waiting = this.waiting.filter((other) => other.topic !== task.topic);
    if (first) this.waiting.unshift(task);
    else this.waiting.push(task);
    this.next();
  }

  private next(): void {
    if (this.running) return;
    this.running = this.waiting.shift();
    if (!this.running) return;
    const { number, call, input } = this.running;
    this.worker.postMessage({ number, call, input });
  }
}

export class Pool {
  private readonly threads: Thread[];
  private readonly places = new Map<string, Thread>();
  private count = 0;

  constructor(module: WebAssembly.Module, worker: string) {
    const source = URL.createObjectURL(new Blob([worker], { type: "text/javascript" }));
    const number = Math.max(1, Math.min(4, navigator.hardwareConcurrency || 1));
    this.threads = Array.from({ length: number }, () => new Thread(source, module));
  }

  /** Answer a call on the thread of a core. A promise of a dropped call is never kept. */
  ask<T>(core: string, topic: string, call: string[], input: Input, first = false): Promise<T> {
    let thread = this.places.get(core);
    if (!thread) {
      thread = this.threads[this.places.size % this.threads.length];
      this.places.set(core, thread);
    }
    return new Promise((resolve) => {
      const number = this.count++;
      thread.add(
        { number, call, input, topic, resolve: resolve as (value: unknown) => void },
        first,
      );
    });
  }
}
