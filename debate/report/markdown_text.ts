/**
 * Text of others inside of a Markdown document: models, tools and operators write what they like, and it must stay
 * where it is put.
 *
 * @module
 */

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;

/** One line, with nothing in it that means something to Markdown or HTML. */
export function inline(text: string): string {
  return text.replace(/\s+/g, " ").replace(/\p{Cc}/gu, "").trim().replace(/[\\`*_[\]<>#|~!&]/g, "\\$&");
}

/** Text as it is, in a fence that it cannot close. */
export function fenced(text: string, language = ""): string {
  const longest = (text.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 2);
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${clean(text).replace(/\n+$/, "")}\n${fence}`;
}

/**
 * Markdown of others: it keeps its lists, tables and code, but its headings go below ours, its fences end with it,
 * and it has no HTML and no pictures, which would call home.
 */
export function embedded(text: string): string {
  const lines: string[] = [];
  let fence = "";
  for (const line of clean(text).trim().split("\n")) {
    const mark = FENCE.exec(line)?.[1] ?? "";
    if (fence !== "") {
      lines.push(line);
      if (closes(line, fence)) fence = "";
      continue;
    }
    // A line of three backticks and then another is code in a line, no fence.
    if (mark !== "" && !(mark.startsWith("`") && line.trimStart().slice(mark.length).includes("`"))) {
      fence = mark;
      lines.push(line);
      continue;
    }
    lines.push(lowerHeading(tame(line), lines.at(-1) ?? ""));
  }
  if (fence !== "") lines.push(fence);
  return lines.join("\n");
}

function closes(line: string, fence: string): boolean {
  const mark = /^ {0,3}(`+|~+)\s*$/.exec(line)?.[1] ?? "";
  return mark[0] === fence[0] && mark.length >= fence.length;
}

function lowerHeading(line: string, before: string): string {
  const marks = /^ {0,3}(#{1,6})(?=\s|$)/.exec(line)?.[1];
  if (marks !== undefined) {
    return `${"#".repeat(Math.min(6, marks.length + 4))}${line.trimStart().slice(marks.length)}`;
  }
  // Under a line of text these would make it a heading.
  return before.trim() !== "" && /^ {0,3}(?:=+|-+)\s*$/.test(line) ? line.replace(/[=-]/, "\\$&") : line;
}

/** Outside of code in the line. */
function tame(line: string): string {
  return line.split(/(`+[^`]+`+)/).map((part, index) =>
    index % 2 === 1 ? part : part.replace(/<(?=[A-Za-z/!?])/g, "\\<").replace(/!\[/g, "!\\[")
  ).join("");
}

function clean(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(/[^\P{Cc}\n\t]/gu, "");
}
