/** @import Token from "markdown-it/lib/token" */

import { make } from "./api.js";
import { codeBlock } from "./code.js";
import markdownIt from "./markdown-it.js";

const MAX_NESTING = 100;

/** HTML, links and images stay text. */
const parser = markdownIt("commonmark", { maxNesting: MAX_NESTING }).enable("table")
  .disable(["html_block", "html_inline", "link", "image", "autolink"]);

/**
 * Converts Markdown of a model to elements. This function creates every element, and no text is parsed as
 * HTML.
 * @param {string} text
 */
export function renderMarkdown(text) {
  const tokens = parser.parse(text, {});
  const fragment = document.createDocumentFragment();
  // The parser ignores deeper nesting.
  if (tokens.some(({ level }) => level >= MAX_NESTING - 1)) fragment.append(codeBlock(text));
  else fill(fragment, tokens);
  return fragment;
}

/** @param {Element | DocumentFragment} root @param {readonly Token[]} tokens */
function fill(root, tokens) {
  const open = [root];
  for (const token of tokens) {
    const parent = open.at(-1) ?? root;
    // A paragraph in a list without empty lines.
    if (token.hidden) continue;
    if (token.type === "inline") fill(parent, token.children ?? []);
    else if (token.nesting === 1) open.push(begin(parent, token));
    else if (token.nesting === -1) open.pop();
    else parent.append(leaf(token));
  }
}

/**
 * Opens an element and returns the node for its content.
 * @param {Element | DocumentFragment} parent
 * @param {Token} token
 */
function begin(parent, { type, tag, attrs }) {
  if (type !== "heading_open") {
    const element = make(tag);
    const start = attrs?.find((/** @type {readonly string[]} */ [name]) => name === "start")?.[1];
    if (start !== undefined) element.start = start;
    parent.append(element);
    return element;
  }
  // Heading elements in a card would break the outline of the page.
  const heading = make("b");
  parent.append(make("p", {}, heading));
  return heading;
}

/** @param {Token} token */
function leaf({ type, content }) {
  switch (type) {
    case "fence":
    case "code_block":
      return codeBlock(content.replace(/\n$/, ""));
    case "code_inline":
      return make("code", {}, content);
    case "hardbreak":
      return make("br");
    case "softbreak":
      return "\n";
    case "hr":
      return make("hr");
    default:
      return content;
  }
}
