/**
 * Models, tools and operators write arbitrary Markdown. It is parsed and rewritten in a plain form, so that it cannot
 * affect the rest of the report. `markdown-it` takes linear time: it needs 0.3 s for 60 KB of `_a`. `marked` needs 25 s
 * for the same text, and `commonmark` 47 s for 60 KB of `[](`.
 */
import markdownIt, { type Token } from "markdown-it";

const MAX_NESTING = 100;
/** The number of levels by which foreign headings are lowered. */
const LOWER = 4;

/** HTML is treated as text. Images are parsed, so that the report can name them instead of showing them. */
const PARSER = markdownIt("commonmark", { maxNesting: MAX_NESTING }).enable("table")
  .disable(["html_block", "html_inline"]);

/** One line of text without any Markdown or HTML syntax. */
export function inline(text: string): string {
  return escape(text.replace(/\s+/g, " ").replace(/\p{Cc}/gu, "").trim());
}

export function fenced(text: string, language = ""): string {
  const fence = "`".repeat(longestRun(text, 2) + 1);
  return `${fence}${language}\n${clean(text).replace(/(?<!\n)\n+$/, "")}\n${fence}`;
}

/**
 * Embeds foreign Markdown. Lists, tables, code and web links stay. Headings are lowered below the headings of the
 * report. HTML and images are removed, because they could load external content.
 */
export function embedded(text: string): string {
  const tokens = PARSER.parse(clean(text), {});
  // The parser ignores deeper nesting.
  const isTooDeep = tokens.some(({ level }) => level >= MAX_NESTING - 1);
  return isTooDeep ? fenced(text) : new Blocks(tokens).write();
}

class Blocks {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  write(): string {
    return this.#until(undefined);
  }

  #until(close: string | undefined): string {
    let text = "";
    for (let token = this.#next(); token !== undefined && token.type !== close; token = this.#next()) {
      // A paragraph in a list without empty lines.
      const isTight = this.#tokens[this.#at - 2]?.hidden && token.type.endsWith("list_open");
      const block = this.#block(token);
      if (text !== "" && block !== "") text += isTight ? "\n" : "\n\n";
      text += block;
    }
    return text;
  }

  #next(): Token | undefined {
    return this.#tokens[this.#at++];
  }

  #block(token: Token): string {
    switch (token.type) {
      case "paragraph_open":
        return this.#inlineUntil("paragraph_close").split("\n").map(protectStart).join("\n");
      case "heading_open": {
        const level = Math.min(6, Number(token.tag.slice(1)) + LOWER);
        return `${"#".repeat(level)} ${this.#inlineUntil("heading_close").replaceAll("\n", " ")}`;
      }
      case "fence":
      case "code_block":
        return fenced(token.content, /^[\w+.-]{1,20}/.exec(token.info)?.[0]);
      case "hr":
        return "***";
      case "blockquote_open":
        return this.#until("blockquote_close").split("\n").map((line) => `> ${line}`.trimEnd()).join("\n");
      case "bullet_list_open":
      case "ordered_list_open":
        return this.#list(token);
      case "table_open":
        return this.#table();
      default:
        return "";
    }
  }

  #list(open: Token): string {
    const items: string[] = [];
    let isTight = true;
    let number = Number(attribute(open, "start") || 1);
    for (let item = this.#next(); item?.type === "list_item_open"; item = this.#next()) {
      const first = this.#tokens[this.#at];
      if (first?.type === "paragraph_open" && !first.hidden) isTight = false;
      const marker = open.type === "bullet_list_open" ? open.markup : `${number++}${open.markup}`;
      const indent = " ".repeat(marker.length + 1);
      const lines = this.#until("list_item_close").split("\n");
      items.push(
        `${marker} ${lines.map((line) => line === "" ? "" : indent + line).join("\n").trimStart()}`.trimEnd(),
      );
    }
    return items.join(isTight ? "\n" : "\n\n");
  }

  #table(): string {
    const rows: string[] = [];
    let cells: string[] = [];
    let rules: string[] = [];
    for (
      let token = this.#next();
      token !== undefined && token.type !== "table_close";
      token = this.#next()
    ) {
      if (token.type === "tr_open") cells = [];
      if (token.type === "th_open") rules.push(ruleOf(token));
      if (token.type === "inline") cells.push(writeInline(token, true).replaceAll("\n", " "));
      if (token.type !== "tr_close") continue;
      rows.push(`| ${cells.join(" | ")} |`);
      if (rules.length > 0) rows.push(`| ${rules.join(" | ")} |`);
      rules = [];
    }
    return rows.join("\n");
  }

  #inlineUntil(close: string): string {
    let text = "";
    for (let token = this.#next(); token !== undefined && token.type !== close; token = this.#next()) {
      text += writeInline(token, false);
    }
    return text;
  }
}

function attribute(token: Token, name: string): string {
  return String(token.attrGet(name) ?? "");
}

function ruleOf(cell: Token): string {
  const [, align] = /text-align:(\w+)/.exec(attribute(cell, "style")) ?? [];
  if (align === undefined) return "---";
  return `${align === "right" ? "" : ":"}---${align === "left" ? "" : ":"}`;
}

const MARKS: Readonly<Record<string, string>> = {
  em_open: "*",
  em_close: "*",
  strong_open: "**",
  strong_close: "**",
  softbreak: "\n",
  hardbreak: "\\\n",
};

function writeInline({ children }: Token, inTable: boolean): string {
  let text = "";
  const links: string[] = [];
  for (const token of children ?? []) {
    const { type, content } = token;
    if (type === "code_inline") text += writeCode(inTable ? content.replaceAll("|", "\\|") : content);
    else if (type === "link_open") {
      const href = attribute(token, "href");
      links.push(/^https?:\/\/[^\s<>\\]+$/i.test(href) ? href : "");
      if (links.at(-1) !== "") text += "[";
    } else if (type === "link_close") {
      const href = links.pop() ?? "";
      if (href !== "") text += `](<${inTable ? href.replaceAll("|", "%7C") : href}>)`;
    } else if (type === "image") text += escape(`![${content}](${attribute(token, "src")})`);
    else text += MARKS[type] ?? escape(content);
  }
  return text;
}

const REFERENCES: Readonly<Record<string, string>> = { "<": "&lt;", ">": "&gt;", "&": "&amp;" };

/**
 * Escapes Markdown and HTML. Decoded character references may contain line ends. A bare address must not become a link,
 * because GitHub would include a following backslash or backtick: it reads `http://a\<b>` as a link and a tag.
 */
function escape(text: string): string {
  return text.replace(/[\r\n]+/g, " ").replace(/[\\`*_[\]#|~!]/g, "\\$&")
    .replace(/:(?=\/\/)|(?<=www)\.|@/gi, "\\$&")
    .replace(/[<>&]/g, (character) => REFERENCES[character] ?? "");
}

function longestRun(text: string, least: number): number {
  return (text.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), least);
}

function writeCode(content: string): string {
  const ticks = "`".repeat(longestRun(content, 0) + 1);
  const pad = /^[` ]|[` ]$/.test(content) ? " " : "";
  return `${ticks}${pad}${content}${pad}${ticks}`;
}

/** Escapes characters that start a list, a rule or code, or underline a heading, at the start of a line. */
function protectStart(line: string): string {
  return line.trimStart().replace(/^[-+=:]/, "\\$&").replace(/^(\d{1,9})([.)])/, "$1\\$2");
}

function clean(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(/[\u2028\u2029]/g, " ").replace(/[^\P{Cc}\n\t]/gu, "");
}
