/** Cycles an iteration at the 64 code offsets of a line, as bars. */

import { extremes, folded, harm, type Offsets } from "./answers";

interface Properties {
  name: string;
  offsets: Offsets;
  at: number;
  /** Bytes between possible code offsets. */
  step: number;
  onAt: (at: number) => void;
}

export function Strip({ name, offsets, at, step, onAt }: Properties) {
  const [best, worst] = extremes(offsets);
  const put = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const offset = Math.floor(((event.clientX - box.left) / box.width) * 64);
    onAt(Math.max(0, Math.min(63, offset - (offset % step))));
  };
  return (
    <svg
      class="strip"
      role="img"
      aria-label={`${name}: cycles an iteration by code offset: ${folded(offsets)}`}
      viewBox="0 0 64 10"
      preserveAspectRatio="none"
      onPointerDown={(event) => {
        (event.currentTarget as Element).setPointerCapture(event.pointerId);
        put(event);
      }}
      onPointerMove={(event) => event.buttons && put(event)}
    >
      <rect class="here" x={at} y="0" width={step} height="10" />
      {offsets.map((cycles, offset) => {
        if (cycles === null) return null;
        const height = (9 * cycles) / worst;
        const kind = harm(cycles, best) + (offset === at ? " at" : "");
        return (
          <rect
            key={offset}
            class={kind}
            x={offset + 0.1}
            y={10 - height}
            width={step - 0.2}
            height={height}
          />
        );
      })}
    </svg>
  );
}
