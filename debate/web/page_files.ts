import { styleSheet } from "@gateway/shared/ui";
import { extname } from "node:path";
// `deno task pages` creates this file from page/app.tsx.
import answer from "./static/answer.css" with { type: "text" };
import app from "./static/app.bundle.js" with { type: "text" };
import conversation from "./static/conversation.css" with { type: "text" };
import icon from "./static/icon.svg" with { type: "text" };
import map from "./static/map.css" with { type: "text" };
import page from "./static/index.html" with { type: "text" };
import run from "./static/run.css" with { type: "text" };
import style from "./static/style.css" with { type: "text" };
import theme from "./static/theme.js" with { type: "text" };

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

const FILES = {
  "app.js": app,
  "icon.svg": icon,
  "style.css": [styleSheet(), style, run, answer, conversation, map].join(""),
  "theme.js": theme,
};

/** The files of the page by their paths. As text they are part of the program. */
export const PAGE_FILES: ReadonlyMap<string, { readonly type: string; readonly text: string }> = new Map([
  ["/", { type: "text/html; charset=utf-8", text: page }],
  ...Object.entries(FILES).map(([name, text]) =>
    [`/static/${name}`, { type: TYPES[extname(name)] ?? "text/plain", text }] as const
  ),
]);
