import { askedKind, isCommandShown } from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type Html, markup } from "./html.ts";
import { findPeculiarities, showText } from "./shown_text.ts";
import { formatCount } from "./text_format.ts";

/** UTF-16 units that fit into the box without scrolling, about. */
const FITS = 800;
/** More kinds of peculiar characters than this are counted together. */
const MOST_KINDS = 12;

/** The exact command, and what a reader could overlook in it. */
export function renderCommand(approval: ApprovalRecord): Html {
  const { command } = approval;
  return markup`<section class="panel brief" aria-labelledby="command"><h2 id="command">${
    approval.target_type === "k8s" ? "Action on the cluster" : "Command"
  }</h2>
${renderWarning(command)}${
    command === ""
      ? markup`<p class="muted">None: access is asked for, not a command.</p>`
      : markup`<code class="command" tabindex="0" role="region" aria-label="Exact command">${
        showText(command)
      }</code>`
  }${command.length > FITS && renderLength(command)}${
    command !== "" && !isCommandShown(askedKind(approval)) &&
    markup`\n<p class="warning">Named with the request only: nothing limits it to this command.</p>`
  }
</section>`;
}

/** What a transfer writes, as its broker says. */
export function renderContent({ content_sha256, content_bytes = 0, content_head }: ApprovalRecord): Html {
  const isCut = content_head !== undefined && new TextEncoder().encode(content_head).length < content_bytes;
  return markup`<section class="panel brief" aria-labelledby="content"><h2 id="content">What is written, as the broker says</h2>
${
    content_head === undefined
      ? markup`<p class="muted">${
        content_bytes === 0 ? "Nothing: the file is emptied." : "It is not text."
      }</p>`
      : markup`<code class="command head" tabindex="0" role="region" aria-label="First lines of the content">${
        content_head.split("\n").map((line, index) => [index > 0 && "\n", showLine(line)])
      }</code>`
  }
<p class="note">${isCut && "Only the first lines, of "}${
    formatCount(content_bytes)
  } bytes, SHA-256 <code>${content_sha256}</code></p>
</section>`;
}

/** A line of a file, which ends without surprise, and begins with blanks and tabs without one. */
function showLine(line: string): Html {
  const [indent = ""] = /^[ \t]{0,40}/.exec(line) ?? [];
  return markup`${indent}${showText(line.slice(indent.length))}`;
}

function renderLength(command: string): Html {
  const lines = command.split("\n").length;
  return markup`\n<p class="note">${formatCount(command.length)} characters${
    lines > 1 && ` in ${formatCount(lines)} lines`
  }. The box scrolls: read to its end.</p>`;
}

function renderWarning(command: string): Html | undefined {
  const { odd, foreign } = findPeculiarities(command);
  if (odd.length === 0 && foreign === 0) return undefined;
  const others = odd.length - MOST_KINDS;
  return markup`<div class="warning">${
    odd.length > 0 &&
    markup`<p>Not everything in this command shows itself. In boxes:</p>
<ul>
${odd.slice(0, MOST_KINDS).map(({ name, count }) => markup`<li>${name}, ${times(count)}</li>\n`)}${
      others > 0 && markup`<li>${others} more kinds</li>\n`
    }</ul>`
  }${
    foreign > 0 &&
    markup`<p>With a dotted line below: ${formatCount(foreign)} ${
      foreign === 1 ? "character that is" : "characters that are"
    } not ASCII and may look like another.</p>`
  }</div>
`;
}

function times(count: number): string {
  return count === 1 ? "once" : `${formatCount(count)} times`;
}
