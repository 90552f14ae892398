import { make } from "./api.js";

/**
 * What models write, as elements: paragraphs, headings, lists, code, emphasis. No links, pictures or HTML: they stay
 * text.
 */
export function renderMarkdown(text) {
  const fragment = document.createDocumentFragment();
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  let list;
  let paragraph = [];
  const flush = () => {
    if (paragraph.length > 0) fragment.append(make("p", {}, ...inline(paragraph.join("\n"))));
    paragraph = [];
  };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)/.exec(line)?.[1];
    const heading = /^#{1,6}\s+(.*)$/.exec(line);
    const item = /^\s*([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
    if (fence !== undefined) {
      flush();
      const code = [];
      for (at += 1; at < lines.length && !lines[at].trim().startsWith(fence); at++) code.push(lines[at]);
      fragment.append(make("pre", { tabIndex: 0 }, code.join("\n")));
    } else if (heading !== null) {
      flush();
      // Headings inside of a card would tear the outline of the page.
      fragment.append(make("p", {}, make("b", {}, ...inline(heading[1]))));
    } else if (item !== null) {
      flush();
      const name = /\d/.test(item[1]) ? "ol" : "ul";
      if (list?.localName !== name) fragment.append(list = make(name));
      list.append(make("li", {}, ...inline(item[2])));
      continue;
    } else if (line.trim() === "") {
      flush();
    } else {
      paragraph.push(line);
    }
    list = undefined;
  }
  flush();
  return fragment;
}

function inline(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*|\*[^*\s][^*\n]*\*)/).map((part, index) => {
    if (index % 2 === 0) return part;
    if (part.startsWith("`")) return make("code", {}, part.slice(1, -1));
    return part.startsWith("**") ? make("b", {}, part.slice(2, -2)) : make("i", {}, part.slice(1, -1));
  });
}
