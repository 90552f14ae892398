/**
 * The files of the web page, which are part of the program.
 *
 * @module
 */
import { ODD } from "@gateway/shared/text";
import markdownItScript from "markdown-it/browser" with { type: "text" };
import answerScript from "./page/answer.js" with { type: "text" };
import boardScript from "./page/board.js" with { type: "text" };
import drawingScript from "./page/drawing.js" with { type: "text" };
import evidenceScript from "./page/evidence.js" with { type: "text" };
import summaryScript from "./page/summary.js" with { type: "text" };
import waitsScript from "./page/waits.js" with { type: "text" };
import callsScript from "./page/calls.js" with { type: "text" };
import partsScript from "./page/parts.js" with { type: "text" };
import codeScript from "./page/code.js" with { type: "text" };
import conversationScript from "./page/conversation.js" with { type: "text" };
import esScript from "./page/es.js" with { type: "text" };
import mapScript from "./page/map.js" with { type: "text" };
import mapLayoutScript from "./page/map_layout.js" with { type: "text" };
import wordsScript from "./page/words.js" with { type: "text" };
import notifyScript from "./page/notify.js" with { type: "text" };
import shortcutsScript from "./page/shortcuts.js" with { type: "text" };
import steerScript from "./page/steer.js" with { type: "text" };
import modelsScript from "./page/models.js" with { type: "text" };
import templatesScript from "./page/templates.js" with { type: "text" };
import compareScript from "./page/compare.js" with { type: "text" };
import apiScript from "./page/api.js" with { type: "text" };
import appScript from "./page/app.js" with { type: "text" };
import cardsScript from "./page/cards.js" with { type: "text" };
import mapStyle from "./page/map.css" with { type: "text" };
import icon from "./page/icon.svg" with { type: "text" };
import markdownScript from "./page/markdown.js" with { type: "text" };
import page from "./page/index.html" with { type: "text" };
import runStyle from "./page/run.css" with { type: "text" };
import runScript from "./page/run.js" with { type: "text" };
import runsScript from "./page/runs.js" with { type: "text" };
import style from "./page/style.css" with { type: "text" };
import themeScript from "./page/theme.js" with { type: "text" };
import visibleScript from "./page/visible.js" with { type: "text" };

interface PageFile {
  readonly type: string;
  readonly text: string;
}

const script = (text: string): PageFile => ({ type: "text/javascript; charset=utf-8", text });

/** Modules are asked for together, not one after the other as each is found to be imported. */
function preload(html: string, paths: readonly string[]): string {
  const links = paths.map((path) => `    <link rel="modulepreload" href="${path}">\n`);
  return html.replace("  </head>", `${links.join("")}  </head>`);
}

const FILES: readonly (readonly [string, PageFile])[] = [
  ["/static/icon.svg", { type: "image/svg+xml", text: icon }],
  ["/static/map.css", { type: "text/css; charset=utf-8", text: mapStyle }],
  ["/static/run.css", { type: "text/css; charset=utf-8", text: runStyle }],
  ["/static/style.css", { type: "text/css; charset=utf-8", text: style }],
  ["/static/answer.js", script(answerScript)],
  ["/static/board.js", script(boardScript)],
  ["/static/drawing.js", script(drawingScript)],
  ["/static/evidence.js", script(evidenceScript)],
  ["/static/summary.js", script(summaryScript)],
  ["/static/waits.js", script(waitsScript)],
  ["/static/calls.js", script(callsScript)],
  ["/static/parts.js", script(partsScript)],
  ["/static/code.js", script(codeScript)],
  ["/static/conversation.js", script(conversationScript)],
  ["/static/es.js", script(esScript)],
  ["/static/map.js", script(mapScript)],
  ["/static/map_layout.js", script(mapLayoutScript)],
  ["/static/words.js", script(wordsScript)],
  ["/static/notify.js", script(notifyScript)],
  ["/static/shortcuts.js", script(shortcutsScript)],
  ["/static/steer.js", script(steerScript)],
  ["/static/models.js", script(modelsScript)],
  ["/static/templates.js", script(templatesScript)],
  ["/static/compare.js", script(compareScript)],
  ["/static/api.js", script(apiScript)],
  ["/static/app.js", script(appScript)],
  ["/static/cards.js", script(cardsScript)],
  ["/static/markdown.js", script(markdownScript)],
  ["/static/markdown-it.js", script(markdownItScript)],
  ["/static/odd.js", script(`export const ODD = ${JSON.stringify(ODD)};\n`)],
  ["/static/run.js", script(runScript)],
  ["/static/runs.js", script(runsScript)],
  ["/static/theme.js", script(themeScript)],
  ["/static/visible.js", script(visibleScript)],
];
const MODULES = FILES.map(([path]) => path).filter((path) =>
  path.endsWith(".js") && !path.endsWith("/theme.js")
);

export const PAGE_FILES: ReadonlyMap<string, PageFile> = new Map([
  ["/", { type: "text/html; charset=utf-8", text: preload(page, MODULES) }],
  ...FILES,
]);

/** The response with a file. Browsers revalidate it each time, since the program may have been updated. */
export function pageResponse({ type, text }: PageFile): Response {
  return new Response(text, { headers: { "content-type": type, "cache-control": "no-cache" } });
}
