import { accessKind, describeDiff, isCommandShown } from "@gateway/shared/policy";
import type { ApprovalRecord, K8sDiff } from "@gateway/shared/wire";
import { Card, findSuspiciousCharacters, VisibleText } from "@gateway/shared/ui";
import type { ComponentChildren, JSX } from "preact";
import { formatCount } from "./format.ts";
import { parseJson, parseStandardJson, stringifyJson } from "@gateway/shared/json";
import { List, Separated, showCode } from "./request_facts.tsx";

/** The approximate number of UTF-16 units that fit into the box without scrolling. */
const FITS = 800;
/** The maximum number of listed kinds of characters. Further kinds are counted together. */
const MOST_KINDS = 12;

/** The exact command, with a warning about characters that a reader could overlook. */
export function Command({ approval }: { readonly approval: ApprovalRecord }): JSX.Element {
  const { command } = approval;
  return (
    <Card
      class="brief"
      id="command"
      title={approval.target_type === "k8s" ? "Action on the cluster" : "Command"}
    >
      <Suspicious command={command} />
      {command === ""
        ? <p class="muted">None. The request is for access, not for a command.</p>
        : (
          <Box label="Exact command">
            <VisibleText text={command} />
          </Box>
        )}
      {command.length > FITS && <Length command={command} />}
      {command !== "" && !isCommandShown(accessKind(approval)) && (
        <p class="warning">This text is informational. The access is not limited to this command.</p>
      )}
    </Card>
  );
}

/** Text in a fixed-width font that scrolls. */
function Box(
  { label, isHead = false, children }: {
    readonly label: string;
    readonly isHead?: boolean;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <code class={`code command ${isHead ? "head" : ""}`} tabIndex={0} role="region" aria-label={label}>
      {children}
    </code>
  );
}

export function Content({ content_sha256, content_bytes = 0, content_head }: ApprovalRecord): JSX.Element {
  const isCut = content_head !== undefined && new TextEncoder().encode(content_head).length < content_bytes;
  return (
    <Card class="brief" id="content" title="Content to write (reported by the broker)">
      {content_head === undefined
        ? <p class="muted">{content_bytes === 0 ? "Empty: the file is truncated." : "Not text."}</p>
        : (
          <Box label="First lines of the content" isHead>
            <Lines text={content_head} maxIndent={40} />
          </Box>
        )}
      <p class="note">
        {`${isCut ? "First lines of " : ""}${formatCount(content_bytes)} bytes, SHA-256 `}
        <code>{content_sha256}</code>
      </p>
    </Card>
  );
}

/** The lines of a file. Indentation is usual and is not marked. */
function Lines({ text, maxIndent }: { readonly text: string; readonly maxIndent: number }): JSX.Element {
  const showLine = (line: string) => {
    const indent = /^[ \t]*/.exec(line)?.[0].slice(0, maxIndent) ?? "";
    return (
      <>
        {indent}
        <VisibleText text={line.slice(indent.length)} />
      </>
    );
  };
  return <Separated items={text.split("\n")} show={showLine} separator={LINE_END} />;
}

const LINE_END = "\n";

function Length({ command }: { readonly command: string }): JSX.Element {
  const lines = command.split("\n").length;
  const count = lines > 1 ? ` in ${formatCount(lines)} lines` : "";
  return <p class="note">{`${formatCount(command.length)} characters${count}. Scroll to read all of it.`}</p>;
}

function Suspicious({ command }: { readonly command: string }): JSX.Element | null {
  const { odd, foreign } = findSuspiciousCharacters(command);
  if (odd.length === 0 && foreign === 0) return null;
  const others = odd.length - MOST_KINDS;
  const kinds = odd.slice(0, MOST_KINDS).map(({ name, count }) => `${name}, ${times(count)}`);
  return (
    <div class="warning">
      {odd.length > 0 && (
        <>
          <p>This command contains invisible characters, shown in boxes:</p>
          <List items={others > 0 ? [...kinds, `${others} more kinds`] : kinds} />
        </>
      )}
      {foreign > 0 && (
        <p>
          {`Underlined with dots: ${formatCount(foreign)} non-ASCII ${
            foreign === 1 ? "character that may look like another" : "characters that may look like others"
          }.`}
        </p>
      )}
    </div>
  );
}

function times(count: number): string {
  return count === 1 ? "once" : `${formatCount(count)} times`;
}

export function Manifest(
  { k8s_manifest, k8s_manifest_sha256, k8s_diff, k8s_force_fields = [] }: ApprovalRecord,
): JSX.Element | null {
  if (k8s_manifest === undefined) return null;
  return (
    <Card class="brief" id="change" title="Changes">
      {k8s_diff === undefined
        ? <p class="warning">The signer did not report the changes.</p>
        : <Diff diff={k8s_diff} />}
      {k8s_force_fields.length > 0 && (
        <p class="warning">
          {"Takes over these fields of other managers: "}
          <Separated items={k8s_force_fields} show={showCode} />
        </p>
      )}
      <details open={k8s_diff?.kind !== "changed" && k8s_diff?.kind !== "unchanged"}>
        <summary>Manifest</summary>
        <Box label="Manifest" isHead>
          <Lines text={layOut(k8s_manifest)} maxIndent={80} />
        </Box>
        <p class="note">
          {"The broker sends exactly this manifest, with the values of Secrets. Any other manifest needs its own " +
            "approval. SHA-256 "}
          <code>{k8s_manifest_sha256}</code>
        </p>
      </details>
    </Card>
  );
}

function Diff({ diff }: { readonly diff: K8sDiff }): JSX.Element {
  const { kind, changes = [], omitted = 0 } = diff;
  const said = describeDiff(diff);
  return (
    <>
      {kind === "unknown"
        ? (
          <p class="warning">
            At the time of the request, it is not known: <VisibleText text={said} />.
          </p>
        )
        : <p>{`At the time of the request, it ${said}.`}</p>}
      {changes.length > 0 && (
        <div class="changes" tabIndex={0} role="region" aria-label="Changed fields">
          <dl class="facts">
            {changes.map(({ path, before, after }) => (
              <div key={path}>
                <dt>
                  <code>
                    <VisibleText text={path} />
                  </code>
                </dt>
                <dd>
                  {before !== undefined && (
                    <del>
                      <code>
                        <VisibleText text={before} />
                      </code>
                    </del>
                  )}
                  {before !== undefined && after !== undefined && " → "}
                  {after === undefined ? " (removed)" : (
                    <ins>
                      <code>
                        <VisibleText text={after} />
                      </code>
                    </ins>
                  )}
                </dd>
              </div>
            ))}
          </dl>
        </div>
      )}
      {omitted > 0 && <p class="warning">{`${formatCount(omitted)} more fields are not shown.`}</p>}
    </>
  );
}

/** Indented JSON, unless that would change a value: an integer may be longer than a number. */
function layOut(text: string): string {
  try {
    const value = parseStandardJson(text);
    return JSON.stringify(value) === stringifyJson(parseJson(text)) ? JSON.stringify(value, null, 2) : text;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return text;
    throw error;
  }
}
