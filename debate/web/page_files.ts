import { ODD } from "@gateway/shared/text";
import { extname } from "node:path";
import page from "./page/index.html" with { type: "text" };
import * as texts from "./page_texts.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

const FILES = Object.entries({
  ...texts,
  "hidden_characters.js": `export const HIDDEN = ${JSON.stringify(ODD)};\n`,
})
  .map(([name, text]) => [`/static/${name}`, { type: TYPES[extname(name)] ?? "text/plain", text }] as const);

/** Browsers load all modules at the same time, not one after the other as each import is found. */
const PRELOADS = FILES.map(([path]) => path).filter((path) => /(?<!\/theme)\.js$/.test(path))
  .map((path) => `    <link rel="modulepreload" href="${path}">\n`);

export const PAGE_FILES: ReadonlyMap<string, { readonly type: string; readonly text: string }> = new Map([
  ["/", {
    type: "text/html; charset=utf-8",
    text: page.replace("  </head>", `${PRELOADS.join("")}  </head>`),
  }],
  ...FILES,
]);
