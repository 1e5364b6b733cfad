/** The cores side by side: cycles here, why, and the line of each. */

import { extremes, harm, type Answer, type Core } from "./answers";
import type { Settings } from "./settings";
import { Strip } from "./strip";
import { word } from "./words";

interface Properties {
  /** Cores of the code's instruction set. */
  cores: Core[];
  chosen: Core[];
  answers: Record<string, Answer>;
  focus: Core | undefined;
  at: number;
  step: number;
  /** Bytes of the loop. */
  length: number;
  /** Ids of all cores that are chosen, of either instruction set. */
  all: string[];
  put: (more: Partial<Settings>) => void;
}

function figure(answer: Answer | undefined, at: number): number | undefined {
  return answer?.offsets?.[at] ?? undefined;
}

export function Cores({ cores, chosen, answers, focus, at, step, length, all, put }: Properties) {
  const said = focus && figure(answers[focus.id], at);
  const crosses = at + length > 64;
  return (
    <section class="cores" aria-labelledby="cycles">
      <h2 id="cycles">Cycles an iteration</h2>
      <div class="slide">
        <label for="at">
          Code offset <output for="at">{at}</output> of 64
          <span class="quiet">{crosses ? ", across a line" : ", within a line"}</span>
        </label>
        <input
          id="at"
          type="range"
          min="0"
          max={64 - step}
          step={step}
          value={at}
          aria-valuetext={`${at}${said === undefined ? "" : `: ${said.toFixed(2)} cycles on ${focus!.name}`}`}
          onInput={(event) => put({ at: Number(event.currentTarget.value) })}
        />
      </div>
      <ul>
        {chosen.map((core) => {
          const answer = answers[core.id];
          const here = figure(answer, at);
          const offsets = answer?.offsets;
          const [best, worst] = offsets ? extremes(offsets) : [0, 0];
          const why = answer?.details?.CodeRegions[0].SummaryView.Bottleneck;
          const times = here !== undefined && here > best * 1.005 ? here / best : undefined;
          return (
            <li key={core.id} class={core === focus ? "focus" : ""}>
              <label class="name">
                <input
                  type="radio"
                  name="focus"
                  checked={core === focus}
                  onChange={() => put({ focus: core.id })}
                />
                {core.name}
              </label>
              {here !== undefined && (
                <span class={`figure ${harm(here, best)}`}>
                  {here.toFixed(2)}
                  {times && <small> {times.toFixed(2)}× its best</small>}
                </span>
              )}
              {offsets && (
                <Strip
                  name={core.name}
                  offsets={offsets}
                  at={at}
                  step={step}
                  onAt={(place) => put({ at: place, focus: core.id })}
                />
              )}
              <span class="why">
                {answer?.error ? (
                  <span class="error">{answer.error}</span>
                ) : (
                  why !== undefined && `${word(why)}`
                )}
                {offsets &&
                  (worst > best * 1.005
                    ? `; ${best.toFixed(2)} to ${worst.toFixed(2)} by offset`
                    : "; the same at every offset")}
              </span>
              {!core.validated && (
                <span class="why">
                  <b class="error">not validated</b>
                  {core.accuracy.replace("not validated", "")}
                </span>
              )}
            </li>
          );
        })}
      </ul>
      <fieldset>
        <legend>Cores</legend>
        {cores.map(({ id, name }) => (
          <label key={id}>
            <input
              type="checkbox"
              checked={all.includes(id)}
              onChange={(event) =>
                put({
                  cores: event.currentTarget.checked
                    ? [...all, id]
                    : all.filter((other) => other !== id),
                })
              }
            />
            {name}
          </label>
        ))}
      </fieldset>
    </section>
  );
}
