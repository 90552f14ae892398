import assert from "node:assert/strict";
import type { Machine } from "./machine.ts";

/** A block of shell in a guide. */
export interface GuideBlock {
  readonly text: string;
  /** Why it is not run, as the comment above it says; absent: it is. */
  readonly notRun?: string;
  /** Whether each of its lines is a program that stays. */
  readonly stays?: true;
  /** What it ends with, other than 0. */
  readonly exit: number;
}

export interface Following {
  /** Where its commands are typed; the home folder by default. */
  readonly folder?: string;
  /** Writes what is true here in the place of what a block only has for an example. */
  readonly fill?: (text: string) => string | Promise<string>;
  /** Waits until a program that stays is what the next can count on. */
  readonly started?: (line: string) => Promise<void>;
  /** Looks at what a block has printed, and does what the guide asks for before the next. */
  readonly after?: (text: string, printed: string) => void | Promise<void>;
}

const BLOCK =
  /(?:^ *<!-- (?:not run: (?<notRun>[^>]+?)|(?<stays>stays): [^>]+?|ends with (?<exit>\d+): [^>]+?) -->\n+)?^(?<indent> *)```sh\n(?<text>.*?)^ *```$/gms;

/**
 * Reads the blocks of a guide, in order. A comment above one says that it is not run here, or that it ends with another
 * code than 0, and why; or that its programs stay:
 *
 * ```md
 * <!-- not run: needs a second machine; test:judged does it -->
 * <!-- ends with 1: doctor has a finding -->
 * <!-- stays: each line in a terminal of its own -->
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

/** Runs a guide on a machine that is set up, as root, each block as it stands; how many were not run. */
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

/** Has a line go on beside what comes after it. */
function inTerminal(line: string): string {
  const quoted = line.replaceAll("'", "'\\''");
  return `setsid sh -c '${quoted}' </dev/null >/dev/null 2>&1 &`;
}
