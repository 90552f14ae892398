import assert from "node:assert/strict";
import type { Machine } from "./machine.ts";

/** A block of shell in a guide. */
export interface GuideBlock {
  readonly text: string;
  /** Why it is not run, as the comment above it says; absent: it is. */
  readonly notRun?: string;
  /** What it ends with, other than 0. */
  readonly exit: number;
}

const BLOCK =
  /(?:^ *<!-- (?:not run: (?<notRun>[^>]+?)|ends with (?<exit>\d+): [^>]+?) -->\n+)?^(?<indent> *)```sh\n(?<text>.*?)^ *```$/gms;

/**
 * Reads the blocks of a guide, in order. A comment above one says that it is not run here, or that it ends with another
 * code than 0, and why:
 *
 * ```md
 * <!-- not run: needs a second machine; test:judged does it -->
 * <!-- ends with 1: doctor has a finding -->
 * ```
 */
export function readGuide(markdown: string): readonly GuideBlock[] {
  return [...markdown.matchAll(BLOCK)].map(({ groups = {} }) => {
    const { text = "", indent = "", notRun, exit = "0" } = groups;
    const lines = text.split("\n").map((line) => line.startsWith(indent) ? line.slice(indent.length) : line);
    return { text: lines.join("\n"), exit: Number(exit), ...(notRun !== undefined && { notRun }) };
  });
}

/** Runs a guide on a machine that is set up, as root from its home, each block as it stands; how many were not run. */
export async function followGuide(machine: Machine, blocks: readonly GuideBlock[]): Promise<number> {
  const runs = blocks.filter(({ notRun }) => notRun === undefined);
  for (const { text, exit } of runs) {
    const { code, stdout, stderr } = await machine.run("env", "HOME=/root", "sh", "-ec", `cd\n${text}`);
    assert.equal(code, exit, `${text}\n${stdout}${stderr}`);
  }
  return blocks.length - runs.length;
}
