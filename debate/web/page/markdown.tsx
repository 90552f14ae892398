import { type ComponentChildren, createContext, createElement, Fragment, type JSX } from "preact";
import { useContext, useMemo } from "preact/hooks";
import markdownIt from "markdown-it";
import { VisibleText } from "@gateway/shared/ui";
import type { ToolCallEvent } from "../../engine/events.ts";
import { CodeBlock } from "./code_block.tsx";
import { Shown } from "./shown.tsx";

/** The finished calls of the conversation by number. */
export const Calls = createContext<ReadonlyMap<number, ToolCallEvent>>(new Map());

const MAX_NESTING = 100;
const MARK =
  /\[(?:tool: ?(?<tool>[\w.-]{1,64}) ?# ?(?<number>\d{1,6})|(?:hypothesis|hip[oó]tesis): ?(?<id>[\p{L}\p{N}_-]{1,40}))\]/iuy;

/** HTML, links and images stay text. */
const parser = markdownIt("commonmark", { maxNesting: MAX_NESTING }).enable("table")
  .disable(["html_block", "html_inline", "link", "image", "autolink"]);

parser.inline.ruler.before("escape", "mark", (state, silent) => {
  MARK.lastIndex = state.pos;
  const match = MARK.exec(state.src);
  if (match === null) return false;
  const { tool, number = "", id = "" } = match.groups ?? {};
  if (!silent) Object.assign(state.push("mark", "", 0), { content: tool ?? id, markup: number });
  state.pos += match[0].length;
  return true;
});

type Token = ReturnType<typeof parser.parse>[number];

/**
 * Markdown of a model. This module creates every element, and no text is parsed as HTML. Marks such as
 * `[tool:http_get#2]` are links to the calls.
 */
export function Markdown({ text }: { readonly text: string }): JSX.Element {
  return <div class="prose stack tight">{useMemo(() => render(text), [text])}</div>;
}

function render(text: string): ComponentChildren {
  const tokens = parser.parse(text, {});
  // The parser ignores deeper nesting.
  return tokens.some(({ level }) => level >= MAX_NESTING - 1) ? <CodeBlock text={text} /> : fill(tokens, "");
}

function fill(tokens: readonly Token[], line: string): ComponentChildren {
  const open: { readonly token?: Token; readonly children: ComponentChildren[] }[] = [{ children: [] }];
  for (const token of tokens) {
    // A paragraph in a list without empty lines.
    if (token.hidden) continue;
    if (token.nesting === 1) {
      open.push({ token, children: [] });
      continue;
    }
    const { token: begun, children } = (token.nesting === -1 ? open.pop() : undefined) ?? { children: [] };
    open.at(-1)?.children.push(begun === undefined ? leaf(token, line) : element(begun, children));
  }
  return createElement(Fragment, null, ...open[0]?.children ?? []);
}

function element(token: Token, children: ComponentChildren): JSX.Element {
  switch (token.type) {
    case "heading_open":
      // Heading elements in a card would break the outline of the page.
      return createElement("p", null, <b>{children}</b>);
    case "ordered_list_open":
      return <ol start={Number(token.attrGet("start") ?? 1)}>{children}</ol>;
    case "table_open":
      return <div class="wide">{createElement("table", null, children)}</div>;
    default:
      return createElement(token.tag, null, children);
  }
}

function leaf({ type, tag, content, children, markup }: Token, line: string): ComponentChildren {
  switch (type) {
    case "inline":
      return fill(children ?? [], content);
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
    case "hr":
      return createElement(tag, null);
    case "softbreak":
      return "\n";
    case "mark":
      return markup === ""
        ? <HypothesisId id={content} />
        : <CallLink tool={content} number={Number(markup)} line={line} />;
    default:
      return PLAIN.test(content) ? content : <VisibleText text={content} lines />;
  }
}

const PLAIN = /^[\n\t -~]*$/;

/** A cited call. A call that does not exist, or that has another name, has no link. */
function CallLink(
  { tool, number, line }: { readonly tool: string; readonly number: number; readonly line: string },
): JSX.Element {
  const { show } = useContext(Shown);
  const call = useContext(Calls).get(number);
  const name = <VisibleText text={`${tool} #${number}`} lines />;
  if (call?.tool_name !== tool) return <span class="mark-link">{name}</span>;
  return (
    <button type="button" class="mark-link" onClick={() => show({ callId: call.call_id, line })}>
      {name}
    </button>
  );
}

/** `H-1` */
export function HypothesisId({ id }: { readonly id: string }): JSX.Element {
  return (
    <b class="hypothesis-id">
      <VisibleText text={id} lines />
    </b>
  );
}
