/**
 * Builds the page: python cores.py | node build.mjs SIMULATOR FOLDER, with the simulator's WebAssembly.
 */

import { build } from "esbuild";
import { execFileSync } from "node:child_process";
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

const PLATFORM = "wasm32-unknown-unknown";

/**
 * @param {string[]} more
 * @returns {string} what cargo says of the simulator's crate
 */
function cargo(...more) {
  const manifest = new URL("../models/pipeline/Cargo.toml", here).pathname;
  const options = ["--locked", "--manifest-path", manifest, "--features", "wasm"];
  return execFileSync("cargo", [...more, ...options], { encoding: "utf8", maxBuffer: 1 << 28 });
}

/** The licence texts of the crates in the simulator: the file, or who has it under which licence. */
function crates() {
  const tree = ["tree", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"];
  const linked = new Set(
    cargo(...tree, "--target", PLATFORM)
      .split("\n")
      .map((line) => line.split(" ").slice(0, 2).join(" ")),
  );
  /** @typedef {Record<"name" | "version" | "manifest_path" | "repository" | "license", string>} Crate */
  const told = cargo("metadata", "--format-version", "1", "--filter-platform", PLATFORM);
  /** @type {{ packages: (Crate & { source: string | null; authors: string[] })[] }} */
  const { packages } = JSON.parse(told);
  return packages
    .filter((crate) => crate.source && linked.has(`${crate.name} v${crate.version}`))
    .map((crate) => {
      const root = new URL(".", `file://${crate.manifest_path}`);
      const files = readdirSync(root).filter((name) => /^licen[cs]e/i.test(name));
      const file = files.find((name) => /mit/i.test(name)) ?? files[0];
      const who = crate.authors.join(", ") || crate.repository;
      const text = file
        ? readFileSync(new URL(file, root), "utf8")
        : `Copyright (c) ${who}. Licence: ${crate.license}; for the text of MIT see another crate.\n`;
      return `${crate.name} ${crate.version}:\n${text}`;
    });
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
  const all = [...texts, ...crates()].join("\n");
  return `<!-- Parts of this page:\n\n${all.replaceAll("--", "- -")}-->\n`;
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
