import { type Html, markup } from "./html.ts";
import { findPeculiarities, showText } from "./shown_text.ts";
import { formatCount } from "./text_format.ts";

/** UTF-16 units that fit into the box without scrolling, about. */
const FITS = 800;
/** More kinds of peculiar characters than this are counted together. */
const MOST_KINDS = 12;

/** The exact command, and what a reader could overlook in it. */
export function renderCommand(command: string): Html {
  return markup`<section class="panel" aria-labelledby="command"><h2 id="command">Command</h2>
${renderWarning(command)}${
    command === ""
      ? markup`<p class="muted">None: access is asked for, not a command.</p>`
      : markup`<code class="command" tabindex="0" role="region" aria-label="Exact command">${
        showText(command)
      }</code>`
  }${command.length > FITS && renderLength(command)}
</section>`;
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
