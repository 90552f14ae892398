/** Finds phrases that make text hard to read, in pages, help, comments and strings. */
import { listFiles, ROOT } from "./extract.ts";

/** Banned phrases by rule. A rule that begins with `^` applies to the start of a sentence. */
const RULES: Readonly<Record<string, RegExp>> = {
  "name the actor (whoever, nobody, such a one)": /\b(?:whoever|whomever|nobody|such (?:a )?one)\b/gi,
  "name the subject (a sentence that starts with What, Who, Those, Of, Where …)":
    /(?:^|[.;:!?] +)(?:What|Who|Whose|Whatever|Those|Of|That which|Where) (?!(?:if|about|happens|next|to)\b)[a-z]+/g,
  "programs print, report or reject (says, tells)": /\b(?:says|said|tells|told)\b/gi,
  "because (, for it)": /, for (?:it|that|they|there|what|each|its|the|nobody|those|one|he)\b/gi,
  "again, immediately, manually (anew, at once, by hand)": /\b(?:anew|at once|by hands?)\b/gi,
  "fix (mend)": /\bmend(?:s|ed|ing)?\b/gi,
  "next to, in addition to (beside, likewise)": /\b(?:beside|likewise)\b/gi,
  "directory, installation, space (folder, set-up, blank)": /\b(?:folders?|set-ups?|blanks?)\b/gi,
  "be in, appear in (stands in, lies in)":
    /\b(?:stands?|stood|lies|lay|lie) (?:in|there|on|for|below|at|beneath)\b/gi,
  "own, separate (of its own)": /\bof (?:its|his|their|your|our|one's|my) own\b/gi,
  "compromised, trust (taken over, believes)": /\b(?:taken over|takes? over|subverted|believe[sd]?)\b/gi,
  "revoke, roll back (take back)":
    /\b(?:takes?|took|taken|puts?) (?:it |them |that |all |everything )?back\b/gi,
  "valid for (good for)": /\bgood (?:for|until)\b/gi,
  "continue, no longer (goes on, no more)": /\b(?:goes on|going on|no more|any more)\b/gi,
  "they (he, his)": /\b(?:he|his|him)\b/gi,
  "a verb (have it done)":
    /\b(?:have|has|had) (?:a|the|an|each|them|its|one)\b[^.]{0,30}?\b(?:run|made|done|started|signed|sent|taken|checked|refuse|accept)\b/gi,
};

export type Surface = "docs" | "help" | "comments" | "strings";

interface Passage {
  readonly surface: Surface;
  readonly text: string;
  /** Returns file and line. */
  readonly place: () => string;
}

/** A banned phrase with its place, its rule and the text around it. */
export interface Hit {
  readonly surface: Surface;
  readonly line: string;
  /** Text around the phrase. */
  readonly around: string;
}

/** Counts the words of each surface and finds the banned phrases. */
export function searchFiles(
  files: readonly string[] = listFiles(),
  read: (file: string) => string = (file) => Deno.readTextFileSync(ROOT + file),
): { words: Record<Surface, number>; hits: readonly Hit[] } {
  const words = { docs: 0, help: 0, comments: 0, strings: 0 };
  const hits: Hit[] = [];
  const texts = files.filter((file) =>
    /\.(?:md|tsx?|js)$/.test(file) && !/\/(?:vectors|fixtures)\//.test(file)
  );
  for (const { surface, place, text } of texts.flatMap((file) => passagesOf(file, read(file)))) {
    words[surface] += text.match(/[A-Za-z']+/g)?.length ?? 0;
    for (const [rule, pattern] of Object.entries(RULES)) {
      for (const { index } of text.matchAll(pattern)) {
        const around = text.slice(Math.max(0, index - 50), index + 70);
        hits.push({ surface, line: `${place()}: ${rule}: … ${around} …`, around });
      }
    }
  }
  return { words, hits };
}

function passagesOf(file: string, source: string): readonly Passage[] {
  const isTest = /_test\.|^tests\/|\/testing\//.test(file);
  const passages: Passage[] = [];
  const add = (surface: Surface, index: number, text: string) =>
    void passages.push({
      surface,
      text: text.replace(/\s+/g, " ").trim(),
      place: () => `${file}:${source.slice(0, index).split("\n").length}`,
    });
  if (file.endsWith(".md")) {
    const isHelp = /\/commands-[\w-]+\.md$/.test(file);
    const prose = source.replace(/^ *```.*?^ *```$/gms, (block, index: number) => {
      if (isHelp) add("help", index, block.slice(7, -3));
      return block.replace(/[^\n]/g, "");
    });
    for (const { 0: text, index } of prose.matchAll(/\S.*?(?=\n\s*\n|$(?![^]))/gs)) {
      add("docs", index, text.replace(/`[^`]*`/g, "X"));
    }
    return passages;
  }
  for (const { kind, index, text } of tokensOf(source)) {
    const isSentence = /[a-z]{2} [a-z]{2}/.test(text);
    if (kind === "comment" && isSentence) add("comments", index, text);
    else if (kind === "string" && isSentence && !isTest && (text.match(/[A-Za-z]{2,}/g)?.length ?? 0) > 3) {
      add("strings", index, text);
    }
  }
  return passages;
}

const TOKEN =
  /\/\*[^]*?\*\/|\/\/[^\n]*(?:\n\s*\/\/[^\n]*)*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?<=[(,=>:[!&|?{};\n]\s*|\breturn )\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/|[`{}]/g;
const TEMPLATE = /((?:[^`\\$]|\\[^]|\$(?!\{))*)(`|\$\{)/y;

/** Reads the comments and strings of TypeScript. */
function* tokensOf(source: string) {
  TOKEN.lastIndex = 0;
  // The open braces. A brace of a template has the start and the text of this template.
  const open: ({ readonly index: number; readonly text: string } | undefined)[] = [];
  for (let match; (match = TOKEN.exec(source)) !== null;) {
    const { 0: token, index } = match;
    if (/^\/[/*]/.test(token)) {
      const text = token.replace(/^\/\*+|\*\/$/g, "").replace(/^\s*(?:\*|\/\/) ?/gm, "");
      yield {
        kind: "comment",
        index,
        text: text.replace(/```.*?```|`[^`]*`|\{@\w+ [^}]*\}/gs, "X"),
      } as const;
    } else if (/^["']/.test(token)) yield { kind: "string", index, text: token.slice(1, -1) } as const;
    else if (token === "{") open.push(undefined);
    else if (token === "`" || token === "}") {
      const before = token === "`" ? { index, text: "" } : open.pop();
      if (before === undefined) continue;
      TEMPLATE.lastIndex = TOKEN.lastIndex;
      const [, chunk = "", end] = TEMPLATE.exec(source) ?? [];
      TOKEN.lastIndex = Math.max(TOKEN.lastIndex, TEMPLATE.lastIndex);
      if (end === "${") open.push({ index: before.index, text: `${before.text}${chunk}X` });
      else yield { kind: "string", index: before.index, text: before.text + chunk } as const;
    }
  }
}
