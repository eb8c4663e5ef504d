// Builds the page's files into src/ibol/page/assets, from which `ibol page` makes pages.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "src", "ibol", "page", "assets");
const modules = join(here, "node_modules");

async function bundled(entry) {
  const { outputFiles } = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2022",
    charset: "ascii",
    legalComments: "none",
    external: ["module", "fs", "path", "url", "crypto", "ws", "child_process"], // MuJoCo's, of node alone
    define: { "import.meta.url": "document.baseURI" },
  });
  return outputFiles[0].text;
}

async function versionOf(name) {
  return JSON.parse(await readFile(join(modules, name, "package.json"), "utf8")).version;
}

async function licences() {
  const apache = await readFile(join(here, "..", "LICENSE"), "utf8");
  const mit = await readFile(join(modules, "three", "LICENSE"), "utf8");
  return [
    `MuJoCo ${await versionOf("@mujoco/mujoco")} (WebAssembly build, npm @mujoco/mujoco), Copyright DeepMind Technologies Limited.`,
    "Apache License 2.0; its text stands at the end.",
    `three.js ${await versionOf("three")} (npm three)\n\n${mit.trim()}`,
    `ibol. Apache License 2.0:\n\n${apache.trim()}`,
  ].join("\n\n");
}

const script = await bundled("main.ts");
if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
const physics = gzipSync(await readFile(join(modules, "@mujoco", "mujoco", "mujoco.wasm")), { level: 9 });
const files = {
  "page.js": script,
  "style.css": await bundled("style.css"),
  "template.html": await readFile(join(here, "src", "template.html"), "utf8"),
  "physics.txt": physics.toString("base64"),
  "LICENSES.txt": `${await licences()}\n`,
};
await mkdir(assets, { recursive: true });
for (const [name, text] of Object.entries(files)) await writeFile(join(assets, name), text);
const sizes = Object.entries(files).map(([name, text]) => `${name} ${(text.length / 1e6).toFixed(2)} MB`);
console.log(sizes.join(", "));
