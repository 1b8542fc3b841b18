// Builds src/ into internal/report/page/, with the hashes of what it was built from: a test of internal/report compares those, so
// that stale output is noticed where there is no npm.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "internal", "report", "page");
mkdirSync(out, { recursive: true });

const shared = { bundle: true, minify: true, charset: "ascii", legalComments: "none", target: "es2022", logLevel: "warning" };
await build({ ...shared, entryPoints: [join(here, "src", "main.ts")], format: "iife", outfile: join(out, "app.js") });
await build({ ...shared, entryPoints: [join(here, "src", "style.css")], outfile: join(out, "style.css") });
for (const file of ["app.js", "style.css"]) {
  writeFileSync(join(out, file), readFileSync(join(out, file), "utf8").trimEnd());
}
writeFileSync(join(out, "index.html"), readFileSync(join(here, "src", "index.html")));

const sources = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs", ...readdirSync(join(here, "src")).sort().map((f) => "src/" + f)];
const lines = (root, names) => names.map((n) => `${createHash("sha256").update(readFileSync(join(root, n))).digest("hex")}  ${n}\n`);
writeFileSync(join(out, "sources.sha256"), lines(here, sources).join(""));
writeFileSync(join(out, "output.sha256"), lines(out, ["app.js", "index.html", "style.css"]).join(""));
