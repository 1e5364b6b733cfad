/** The page. */

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Answer, Core, Details as Told, Loop, Loops, Offsets } from "./answers";
import { Cores } from "./cores";
import { Details } from "./details";
import { Editor } from "./editor";
import { EXAMPLES } from "./examples";
import type { Pool } from "./pool";
import { quote } from "./quote";
import { fragment, settingsOf, type Settings } from "./settings";

const BEGIN: Settings = {
  text: EXAMPLES[0].text,
  set: "any",
  loop: 0,
  cores: ["zen4", "zen2", "skylake", "sandybridge", "neoverse-n1", "tsv110"],
  focus: EXAMPLES[0].focus,
  at: EXAMPLES[0].at,
};
const DETAILS = "-json -bottleneck-analysis -timeline -timeline-max-iterations=4 -code-alignment=0";

interface Properties {
  pool: Pool;
  cores: Core[];
  version: string;
}

/** The code of an input, once the simulator has read it. */
function useLoops(pool: Pool, { text, set }: Settings): Loops | undefined {
  const [loops, setLoops] = useState<Loops>();
  useEffect(() => {
    let current = true;
    void pool.ask<Loops>("", "loops", ["loops", set], text, true).then((found) => {
      if (current) setLoops(found);
    });
    return () => {
      current = false;
    };
  }, [text, set]);
  return loops;
}

/** What each core says of the code, as it comes in. */
function useAnswers(
  pool: Pool,
  code: string | undefined,
  cores: Core[],
  focus: Core | undefined,
  at: number,
): Record<string, Answer> {
  const [answers, setAnswers] = useState<{ code?: string; of: Record<string, Answer> }>({ of: {} });
  const latest = useRef("");
  const take = useCallback((of: string, core: string, more: Answer) => {
    if (latest.current !== of) return;
    setAnswers((before) => {
      const known = before.code === of ? before.of : {};
      return { code: of, of: { ...known, [core]: { ...known[core], ...more } } };
    });
  }, []);
  const ids = cores.map((core) => core.id).join();

  useEffect(() => {
    latest.current = code ?? "";
    if (!code) return;
    for (const { id } of cores) {
      const asked = pool.ask<Offsets | { error: string }>(
        id,
        `offsets ${id}`,
        ["offsets", id],
        code,
      );
      void asked.then((found) => {
        take(
          code,
          id,
          Array.isArray(found) ? { offsets: found, error: undefined } : { error: found.error },
        );
      });
    }
  }, [code, ids]);

  useEffect(() => {
    if (!code) return;
    const first = cores.filter((core) => core === focus);
    for (const { id } of [...first, ...cores.filter((core) => core !== focus)]) {
      const call = ["mca", `-mcpu=${id}`, `-code-offset=${at}`, ...DETAILS.split(" ")];
      const asked = pool.ask<{ out: string; err: string; code: number }>(
        id,
        `details ${id}`,
        call,
        code,
      );
      void asked.then((said) => {
        if (said.code === 0) take(code, id, { details: JSON.parse(said.out) as Told, at });
      });
    }
  }, [code, ids, focus?.id, at]);

  return answers.code === code ? answers.of : {};
}

export function App({ pool, cores, version }: Properties) {
  const known = useMemo(() => cores.map((core) => core.id), [cores]);
  const [settings, setSettings] = useState(() => settingsOf(location.hash, BEGIN, known));
  const [file, setFile] = useState<{ name: string; loops: Loop[] }>();
  const [said, setSaid] = useState("");
  const put = useCallback(
    (more: Partial<Settings>) => setSettings((before) => ({ ...before, ...more })),
    [],
  );

  const loops = useLoops(pool, settings);
  const loop = loops?.loops?.[Math.min(settings.loop, loops.loops.length - 1)];
  const isa = loops?.isa ?? "x86_64";
  const step = isa === "arm64" ? 4 : 1;
  const at = settings.at - (settings.at % step);
  const chosen = useMemo(
    () =>
      settings.cores
        .map((id) => cores.find((core) => core.id === id)!)
        .filter((core) => core.isa === isa),
    [cores, isa, settings.cores],
  );
  const focus = chosen.find((core) => core.id === settings.focus) ?? chosen[0];
  const answers = useAnswers(pool, loop?.code, chosen, focus, at);

  useEffect(() => {
    const timer = setTimeout(() => history.replaceState(null, "", fragment(settings)), 200);
    return () => clearTimeout(timer);
  }, [settings]);

  useEffect(() => {
    const followed = () => setSettings((before) => settingsOf(location.hash, before, known));
    addEventListener("hashchange", followed);
    return () => removeEventListener("hashchange", followed);
  }, [known]);

  const opened = useCallback(async (chosenFile: File | undefined) => {
    if (!chosenFile) return;
    const bytes = new Uint8Array(await chosenFile.arrayBuffer());
    const found = await pool.ask<Loops>("", "file", ["loops", "any"], bytes, true);
    if (found.error) {
      setSaid(`${chosenFile.name}: ${found.error}`);
      return;
    }
    setFile({ name: chosenFile.name, loops: found.loops });
    taken(chosenFile.name, found.isa, found.loops[0]);
  }, []);
  const taken = (name: string, set: Core["isa"], { name: place, code, address }: Loop) => {
    const hex = code
      .replace(/(.{2})/g, "$1 ")
      .replace(/(.{48})/g, "$1\n")
      .trimEnd();
    const text = `# ${name}: ${place || "code"} at 0x${address.toString(16)}\n${hex}\n`;
    put({ text, set: set === "arm64" ? "arm64" : "x86", loop: 0, at: address % 64 });
  };

  useEffect(() => {
    const over = (event: DragEvent) => event.preventDefault();
    const dropped = (event: DragEvent) => {
      event.preventDefault();
      void opened(event.dataTransfer?.files[0]);
    };
    addEventListener("dragover", over);
    // Before the editor, which would take the file's bytes for text.
    addEventListener("drop", dropped, true);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("drop", dropped, true);
    };
  }, [opened]);

  const copy = async (what: string, text: string) => {
    try {
      await navigator.clipboard.writeText(text);
      setSaid(`${what} copied`);
    } catch {
      prompt(`${what}, to be copied by hand:`, text);
    }
  };
  useEffect(() => {
    if (chosen.length && chosen.every((core) => answers[core.id]?.offsets))
      performance.mark("answered");
  }, [answers]);
  const link = () => location.href.split("#")[0] + fragment({ ...settings, at });
  const length = (loop?.code.length ?? 0) / 2;

  return (
    <>
      <header>
        <h1>Loop explorer</h1>
        <p>
          Cycles an iteration of a loop at every code offset of a 64-byte line, on processor cores
          that this page simulates. Nothing leaves the browser.
        </p>
        <div class="actions">
          <button type="button" onClick={() => copy("Link", link())}>
            Copy link
          </button>
          <button
            type="button"
            disabled={!focus || !answers[focus.id]?.details}
            onClick={() => copy("Text", quote(chosen, answers, focus, at, version, link()))}
          >
            Copy as text
          </button>
          <span role="status">{said}</span>
        </div>
      </header>
      <main>
        <section class="input" aria-labelledby="loop">
          <h2 id="loop">Loop</h2>
          <div class="tools">
            <label>
              Example{" "}
              <select
                value=""
                onChange={(event) => {
                  const example = EXAMPLES[Number(event.currentTarget.value)];
                  put({
                    text: example.text,
                    at: example.at,
                    focus: example.focus,
                    set: "any",
                    loop: 0,
                  });
                  setFile(undefined);
                  event.currentTarget.value = "";
                }}
              >
                <option value="">choose…</option>
                {EXAMPLES.map(({ name }, number) => (
                  <option key={name} value={number}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
            <label>
              Instruction set{" "}
              <select
                value={settings.set}
                onChange={(event) => put({ set: event.currentTarget.value as Settings["set"] })}
              >
                <option value="any">by the text</option>
                <option value="x86">x86-64</option>
                <option value="arm64">AArch64</option>
              </select>
            </label>
            <label class="button">
              Open an object file
              <input
                type="file"
                onChange={(event) => void opened(event.currentTarget.files?.[0])}
              />
            </label>
          </div>
          <Editor text={settings.text} onText={(text) => put({ text })} />
          {file && file.loops.length > 1 && (
            <label>
              Loop of {file.name}{" "}
              <select
                onChange={(event) =>
                  taken(file.name, isa, file.loops[Number(event.currentTarget.value)])
                }
              >
                {file.loops.map(({ name, code, address }, number) => (
                  <option key={address} value={number}>
                    {name || `0x${address.toString(16)}`}, {code.length / 2} bytes
                  </option>
                ))}
              </select>
            </label>
          )}
          {loops?.loops && loops.loops.length > 1 && (
            <label>
              Loop{" "}
              <select
                value={settings.loop}
                onChange={(event) => put({ loop: Number(event.currentTarget.value) })}
              >
                {loops.loops.map(({ name, code }, number) => (
                  <option key={number} value={number}>
                    {number + 1}: {name}, {code.length / 2} bytes
                  </option>
                ))}
              </select>
            </label>
          )}
          {loops?.error ? (
            <p class="error" role="alert">
              {loops.error}
            </p>
          ) : (
            <p class="quiet">
              {length > 0 && `${length} bytes of ${isa === "arm64" ? "AArch64" : "x86-64"}. `}
              {loops?.notes?.map((note) => `${note.replace(/^note: /, "")}. `)}
              {loops?.left_out
                ? `Left out: ${loops.left_out} that jump around code, call, or repeat a string instruction. `
                : ""}
            </p>
          )}
        </section>
        <Cores
          cores={cores.filter((core) => core.isa === isa)}
          chosen={chosen}
          answers={loops?.error ? {} : answers}
          focus={focus}
          at={at}
          step={step}
          length={length}
          put={put}
          all={settings.cores}
        />
        {focus && !loops?.error && loop && (
          <section class="details" aria-labelledby="details">
            <h2 id="details">
              {focus.name} at code offset {at}
            </h2>
            <Details core={focus} answer={answers[focus.id]} />
          </section>
        )}
      </main>
      <footer>
        <p>
          loopwright {version}, GPL-2.0-or-later. Figures are simulated, equal to those of{" "}
          <code>loopwright mca</code>; docs/explorer.md says what they rest on.
        </p>
      </footer>
    </>
  );
}
