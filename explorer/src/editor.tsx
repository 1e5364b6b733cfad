/** The text of the loop. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";

interface Properties {
  text: string;
  onText: (text: string) => void;
}

export function Editor({ text, onText }: Properties) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const told = useRef(onText);
  told.current = onText;

  useEffect(() => {
    const changed = EditorView.updateListener.of((update) => {
      if (update.docChanged) told.current(update.state.doc.toString());
    });
    const state = EditorState.create({
      doc: text,
      extensions: [
        history(),
        EditorView.lineWrapping,
        // Tab goes on to the next control, as in the rest of the page.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        placeholder("Paste assembly, a listing or hex; or drop an object file"),
        EditorView.contentAttributes.of({ "aria-label": "Loop", spellcheck: "false" }),
        changed,
      ],
    });
    view.current = new EditorView({ state, parent: place.current! });
    return () => view.current?.destroy();
  }, []);

  useEffect(() => {
    const doc = view.current?.state.doc;
    if (doc && doc.toString() !== text) {
      view.current!.dispatch({ changes: { from: 0, to: doc.length, insert: text } });
    }
  }, [text]);

  return <div class="editor" ref={place} />;
}
