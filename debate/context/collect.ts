import { type Clock, finishInSlices } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { fence } from "../engine/graph/text.ts";
import { collectProject, type Project, type ProjectRequest } from "./project.ts";
import {
  addCounts,
  type ContextRedactor,
  type RedactedText,
  type RedactionCounts,
} from "./redact_context.ts";

export interface GivenFile {
  /** The client's name for it; never used as a path on the server. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

interface ContextRequest {
  readonly baseContext?: readonly GivenFile[];
  readonly incident?: GivenFile | undefined;
  readonly project?: ProjectRequest | undefined;
}

interface ContextRules {
  /** `undefined`: nothing is masked, at the operator's request. */
  readonly redact: ContextRedactor | undefined;
  readonly clock: Clock;
  readonly allowedRoots: readonly string[];
}

export interface CollectedContext {
  readonly text: string;
  readonly redactions: RedactionCounts;
  readonly notes: readonly string[];
}

/** Puts a context together: base context in the order given, the incident, the project. */
export async function collectContext(
  request: ContextRequest,
  rules: ContextRules,
): Promise<CollectedContext> {
  const { baseContext = [], incident, project: wanted } = request;
  const counts: RedactionCounts[] = [];
  const maskFile = async (text: string) => {
    const masked = await mask(text, rules);
    counts.push(masked.counts);
    return masked.text;
  };
  const project = wanted && await collectProject(wanted, rules.allowedRoots, maskFile);
  const blocks = [
    ...baseContext.map((file) => formatFile("Base context", file)),
    ...(incident === undefined ? [] : [formatFile("Incident", incident)]),
    ...(project === undefined ? [] : [formatProject(project)]),
  ];
  const masked = await maskAll(blocks, rules);
  return {
    text: masked.text,
    redactions: addCounts([...counts, masked.counts]),
    notes: project?.notes ?? [],
  };
}

/**
 * The context of a resumed run: that of the previous run, followed by the new evidence.
 *
 * @param context already redacted, unless its run asked for no redaction
 */
export async function addEvidence(
  context: string,
  { text, files }: { readonly text: string; readonly files: readonly GivenFile[] },
  rules: MaskRules,
): Promise<CollectedContext> {
  const blocks = [
    "# New evidence",
    ...(text.trim() === "" ? [] : [text.trim()]),
    ...files.map((file) => formatFile("Evidence", file)),
  ];
  const added = await maskAll(blocks, rules);
  return {
    text: context === "" ? added.text : `${context}\n\n${added.text}`,
    redactions: added.counts,
    notes: [],
  };
}

type MaskRules = Omit<ContextRules, "allowedRoots">;

async function mask(text: string, { redact, clock }: MaskRules): Promise<RedactedText> {
  return redact === undefined ? { text, counts: {} } : await finishInSlices(redact.inSteps(text), clock);
}

async function maskAll(blocks: readonly string[], rules: MaskRules): Promise<RedactedText> {
  const masked: RedactedText[] = [];
  // Block by block, so that an unterminated key does not swallow what follows.
  for (const block of blocks) masked.push(await mask(block, rules));
  return {
    text: masked.map(({ text }) => text).join("\n\n"),
    counts: addCounts(masked.map(({ counts }) => counts)),
  };
}

function formatFile(title: string, { name, bytes }: GivenFile): string {
  return `# ${title}\nFile: ${oneName(name)}\n\n${decode(name, bytes).trimEnd()}`;
}

function decode(name: string, bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {
    // Reported below.
  }
  throw new AppError(
    "invalid_request",
    `Cannot use file ${JSON.stringify(oneName(name))}: it is not UTF-8 text`,
  );
}

/** The last part of a name, on one line, so that it can't pass for content. */
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
      : [`### ${oneLine(path)}\n${fence(text)}${isCut ? "\n(cut: the file is longer)" : ""}`]
  );
  return [
    `# Project\nRoot: ${oneLine(root)}`,
    `## Files\n${list.length === 0 ? "(none)" : list.join("\n")}`,
    ...shown,
    ...(notes.length === 0 ? [] : [`## Left out\n${notes.map((note) => `- ${oneLine(note)}`).join("\n")}`]),
  ].join("\n\n");
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd");
}
