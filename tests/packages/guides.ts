import assert from "node:assert/strict";
import type { Machine } from "./machine.ts";

/** The guides whose commands run after the tutorial, in the order of running, each with the number of blocks that are not run. */
export const ACCESS_GUIDES: Readonly<Record<string, number>> = {
  "docs/guides/policy.md": 5,
  "docs/guides/approvals.md": 10,
  "docs/guides/sessions.md": 3,
  "docs/guides/clients.md": 5,
  "docs/guides/sealed-hosts.md": 3,
  "docs/guides/revocation-lists.md": 4,
  "docs/guides/kubernetes.md": 5,
};

/** A shell block of a guide. */
export interface GuideBlock {
  readonly text: string;
  /** Reason why the block is not run, from the comment above it. If absent, the block is run. */
  readonly notRun?: string;
  /** True if each line starts a program that keeps running. */
  readonly stays?: true;
  /** Expected exit code. */
  readonly exit: number;
}

/**
 * The guides whose commands run on an installed machine, in the order of running, each with the number of blocks that
 * are not run.
 */
export const OPERATION_GUIDES: Readonly<Record<string, number>> = {
  "docs/guides/hosts.md": 3,
  "docs/guides/identities.md": 1,
  "docs/guides/audit.md": 5,
  "docs/guides/backup.md": 2,
  "docs/guides/troubleshooting.md": 15,
  "docs/guides/upgrade.md": 4,
  "docs/guides/rotate-ca.md": 10,
  "docs/guides/several-instances.md": 4,
  "docs/guides/debate.md": 10,
  "docs/guides/providers.md": 2,
  "docs/moving.md": 4,
  "docs/guides/uninstall.md": 10,
};

interface Following {
  /** Working directory of the commands; the home directory by default. */
  readonly folder?: string;
  /** Replaces the example values of a block by real values. */
  readonly fill?: (text: string) => string | Promise<string>;
  /** Waits until a program that keeps running is ready. */
  readonly started?: (line: string) => Promise<void>;
  /** Reads the output of a block, and does the manual steps before the next block. */
  readonly after?: (text: string, printed: string) => void | Promise<void>;
}

const BLOCK =
  /(?:^ *<!-- (?:not run: (?<notRun>[^>]+?)|(?<stays>stays): [^>]+?|ends with (?<exit>\d+): [^>]+?) -->\n+)?^(?<indent> *)```sh\n(?<text>.*?)^ *```$/gms;

/**
 * Reads the shell blocks of a guide, in order. A comment above a block can state that the block is not run, that its
 * exit code is not 0, or that its programs keep running, each with a reason:
 *
 * ```md
 * <!-- not run: needs a second machine; test:judged does it -->
 * <!-- ends with 1: doctor has a finding -->
 * <!-- stays: each line runs in a separate terminal -->
 * ```
 */
export function readGuide(markdown: string): readonly GuideBlock[] {
  return [...markdown.matchAll(BLOCK)].map(({ groups = {} }) => {
    const { text = "", indent = "", notRun, stays, exit = "0" } = groups;
    const lines = text.split("\n").map((line) => line.startsWith(indent) ? line.slice(indent.length) : line);
    return {
      ...{ text: lines.join("\n"), exit: Number(exit) },
      ...(stays !== undefined && { stays: true }),
      ...(notRun !== undefined && { notRun }),
    };
  });
}

/** Runs each block of a guide unchanged, as root on an installed machine. Returns the number of skipped blocks. */
export async function followGuide(
  machine: Machine,
  blocks: readonly GuideBlock[],
  { folder = "", fill = (text) => text, started, after }: Following = {},
): Promise<number> {
  const runs = blocks.filter(({ notRun }) => notRun === undefined);
  const type = async (text: string, exit: number) => {
    const { code, stdout, stderr } = await machine.run(
      "env",
      "HOME=/root",
      "sh",
      "-ec",
      `cd ${folder}\n${text}`,
    );
    assert.equal(code, exit, `${text}\n${stdout}${stderr}`);
    return `${stdout}${stderr}`;
  };
  for (const { text, exit, stays } of runs) {
    const filled = await fill(text);
    if (stays === undefined) {
      const printed = await type(filled, exit);
      await after?.(text, printed);
      continue;
    }
    for (const line of filled.trim().split("\n")) {
      await type(inTerminal(line), exit);
      await started?.(line);
    }
  }
  return blocks.length - runs.length;
}

/** Returns a command that runs a line in the background. */
function inTerminal(line: string): string {
  const quoted = line.replaceAll("'", "'\\''");
  return `setsid sh -c '${quoted}' </dev/null >/dev/null 2>&1 &`;
}
