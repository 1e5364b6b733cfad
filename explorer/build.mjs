/**
 * Builds the page: python cores.py | node build.mjs SIMULATOR FOLDER, with the simulator's WebAssembly.
 */

import { build } from "esbuild";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const [wasm, folder] = process.argv.slice(2);
const here = new URL(".", import.meta.url);

/** @param {string} entry */
async function bundled(entry) {
  const { outputFiles } = await build({
    absWorkingDir: here.pathname,
    entryPoints: [`src/${entry}`],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  return outputFiles[0].text.replaceAll("</script", "<\\/script");
}

/** The licence texts of what is bundled, as those licences ask. */
function licences() {
  const lock = JSON.parse(readFileSync(new URL("package-lock.json", here), "utf8"));
  const texts = Object.keys(lock.packages)
    .filter((place) => place && !/esbuild|typescript|prettier|axe|@types|undici/.test(place))
    .map((place) => {
      const root = new URL(`${place}/`, here);
      const file = readdirSync(root).find((name) => /^licen[cs]e/i.test(name));
      return file
        ? `${place.replace("node_modules/", "")}:\n${readFileSync(new URL(file, root), "utf8")}`
        : "";
    });
  return `<!-- Parts of this page:\n\n${texts.join("\n").replaceAll("--", "- -")}-->\n`;
}

const simulator = readFileSync(wasm);
/** @type {Record<string, string>} */
const parts = {
  "/* STYLE */": readFileSync(new URL("src/style.css", here), "utf8"),
  SIMULATOR: gzipSync(simulator, { level: 9 }).toString("base64"),
  CORES: readFileSync(0, "utf8").replaceAll("<", "\\u003c"),
  WORKER: await bundled("worker.ts"),
  "/* SCRIPT */": await bundled("main.tsx"),
};
let page = readFileSync(new URL("src/index.html", here), "utf8");
for (const [mark, text] of Object.entries(parts)) page = page.replace(mark, () => text);
mkdirSync(folder, { recursive: true });
writeFileSync(`${folder}/index.html`, page + licences());
writeFileSync(`${folder}/loopwright.wasm`, simulator);
