import { type ComponentChildren, createElement, Fragment, type JSX } from "preact";
import { useMemo } from "preact/hooks";
import markdownIt from "markdown-it";
import { VisibleText } from "@gateway/shared/ui";
import { MAX_MARK, readMark } from "./agent_text.ts";
import { CodeBlock } from "./code_block.tsx";
import { MarkLink } from "./mark_link.tsx";

const MAX_NESTING = 100;

/** HTML, links and images stay text. */
const parser = markdownIt("commonmark", { maxNesting: MAX_NESTING }).enable("table")
  .disable(["html_block", "html_inline", "link", "image", "autolink"]);

parser.inline.ruler.before("escape", "mark", (state, silent) => {
  if (state.src.charAt(state.pos) !== "[") return false;
  const start = state.src.slice(state.pos + 1, state.pos + 2 + MAX_MARK);
  const text = start.slice(0, Math.max(0, start.indexOf("]")));
  if (readMark(text) === undefined) return false;
  if (!silent) state.push("mark", "", 0).content = text;
  state.pos += text.length + 2;
  return true;
});

type Token = ReturnType<typeof parser.parse>[number];

/**
 * Markdown of a model. This module creates every element, and no text is parsed as HTML. Marks such as
 * `[tool:http_get#2]` are links to the calls.
 */
export function Markdown({ text }: { readonly text: string }): JSX.Element {
  const content = useMemo(() => render(text), [text]);
  return <div class="prose">{content}</div>;
}

function render(text: string): ComponentChildren {
  const tokens = parser.parse(text, {});
  // The parser ignores deeper nesting.
  return tokens.some(({ level }) => level >= MAX_NESTING - 1) ? <CodeBlock text={text} /> : fill(tokens, "");
}

interface Open {
  readonly token: Token | undefined;
  readonly children: ComponentChildren[];
}

function fill(tokens: readonly Token[], line: string): ComponentChildren {
  const root: ComponentChildren[] = [];
  const open: Open[] = [{ token: undefined, children: root }];
  for (const token of tokens) {
    const parent = open.at(-1)?.children ?? root;
    // A paragraph in a list without empty lines.
    if (token.hidden) continue;
    if (token.type === "inline") parent.push(fill(token.children ?? [], token.content));
    else if (token.nesting === 1) open.push({ token, children: [] });
    else if (token.nesting === -1) {
      const { token: begun, children } = open.pop() ?? {};
      if (begun !== undefined) open.at(-1)?.children.push(element(begun, children));
    } else parent.push(leaf(token, line));
  }
  return createElement(Fragment, null, ...root);
}

function element(token: Token, children: ComponentChildren): JSX.Element {
  switch (token.type) {
    case "heading_open":
      // Heading elements in a card would break the outline of the page.
      return (
        <p>
          <b>{children}</b>
        </p>
      );
    case "ordered_list_open":
      return <ol start={Number(token.attrGet("start") ?? 1)}>{children}</ol>;
    case "table_open":
      return (
        <div class="wide">
          <table>{children}</table>
        </div>
      );
    default:
      return createElement(token.tag, null, children);
  }
}

function leaf({ type, content }: Token, line: string): ComponentChildren {
  switch (type) {
    case "fence":
    case "code_block":
      return <CodeBlock text={content.replace(/\n$/, "")} />;
    case "code_inline":
      return (
        <code>
          <VisibleText text={content} lines />
        </code>
      );
    case "hardbreak":
      return <br />;
    case "softbreak":
      return "\n";
    case "hr":
      return <hr />;
    case "mark": {
      const mark = readMark(content);
      return mark === undefined ? content : <MarkLink mark={mark} line={line} />;
    }
    default:
      return PLAIN.test(content) ? content : <VisibleText text={content} lines />;
  }
}

const PLAIN = /^[\n\t -~]*$/;
