import { type Clock, finishInSlices } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { decodeText, fence } from "../engine/graph/text.ts";
import { collectProject, type Project, type ProjectRequest } from "./project.ts";
import type { ContextRedactor, RedactionCounts } from "./redact_context.ts";

export interface GivenFile {
  /** The file name that the client sent. It is never used as a path on the server. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

interface ContextRequest {
  readonly baseContext?: readonly GivenFile[];
  readonly incident?: GivenFile | undefined;
  readonly project?: ProjectRequest | undefined;
}

interface MaskRules {
  /** `undefined`: the operator turned redaction off. */
  readonly redact: ContextRedactor | undefined;
  readonly clock: Clock;
}

export interface CollectedContext {
  readonly text: string;
  readonly redactions: RedactionCounts;
  readonly notes: readonly string[];
}

/** Joins the base context files in their order, the incident and the project. */
export async function collectContext(
  { baseContext = [], incident, project: wanted }: ContextRequest,
  rules: MaskRules & { readonly allowedRoots: readonly string[] },
): Promise<CollectedContext> {
  const masker = maskerOf(rules);
  const project = wanted && await collectProject(wanted, rules.allowedRoots, masker.mask);
  const text = await masker.maskAll([
    ...baseContext.map((file) => formatFile("Base context", file)),
    ...(incident === undefined ? [] : [formatFile("Incident", incident)]),
    ...(project === undefined ? [] : [formatProject(project)]),
  ]);
  return { text, redactions: masker.counts, notes: project?.notes ?? [] };
}

/**
 * The context of a resumed run: the context of the previous run, followed by the new evidence.
 *
 * @param context the previous context, which is redacted unless its run turned redaction off
 */
export async function addEvidence(
  context: string,
  { text, files }: { readonly text: string; readonly files: readonly GivenFile[] },
  rules: MaskRules,
): Promise<CollectedContext> {
  if (text.trim() === "" && files.length === 0) return { text: context, redactions: {}, notes: [] };
  const masker = maskerOf(rules);
  const added = await masker.maskAll([
    "# New evidence",
    ...(text.trim() === "" ? [] : [text.trim()]),
    ...files.map((file) => formatFile("Evidence", file)),
  ]);
  const whole = context === "" ? added : `${context}\n\n${added}`;
  return { text: whole, redactions: masker.counts, notes: [] };
}

/** Masks texts and counts their secrets by class. */
function maskerOf({ redact, clock }: MaskRules) {
  const counts: Record<string, number> = {};
  async function mask(text: string): Promise<string> {
    if (redact === undefined) return text;
    const masked = await finishInSlices(redact.inSteps(text), clock);
    for (const [name, count] of Object.entries(masked.counts)) counts[name] = (counts[name] ?? 0) + count;
    return masked.text;
  }
  return {
    counts,
    mask,
    async maskAll(blocks: readonly string[]): Promise<string> {
      const masked: string[] = [];
      // Block by block, so that an unterminated key does not extend into the next block.
      for (const block of blocks) masked.push(await mask(block));
      return masked.join("\n\n");
    },
  };
}

function formatFile(title: string, { name, bytes }: GivenFile): string {
  const [shown, text] = [oneName(name), decodeText(bytes)];
  if (text !== undefined) return `# ${title}\nFile: ${shown}\n\n${text.trimEnd()}`;
  throw new AppError("invalid_request", `Cannot use file ${JSON.stringify(shown)}: it is not UTF-8 text`);
}

/** The last part of a file name, on one line, so that it cannot look like content. */
function oneName(name: string): string {
  const last = name.split(/[/\\]/).findLast((part) => part !== "") ?? "";
  return last.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "").slice(0, 200) || "unnamed";
}

function formatProject({ root, files, notes }: Project): string {
  const list = files.map(({ path, text }) =>
    `- ${oneLine(path)}${text === undefined ? " (binary, not shown)" : ""}`
  );
  const shown = files.flatMap(({ path, text, isCut }) =>
    text === undefined
      ? []
      : [`### ${oneLine(path)}\n${fence(text)}${isCut ? "\n(truncated: the file is longer)" : ""}`]
  );
  return [
    `# Project\nRoot: ${oneLine(root)}`,
    `## Files\n${list.length === 0 ? "(none)" : list.join("\n")}`,
    ...shown,
    ...(notes.length === 0 ? [] : [`## Omitted\n${notes.map((note) => `- ${oneLine(note)}`).join("\n")}`]),
  ].join("\n\n");
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd");
}
