import { threadCpuUsage } from "node:process";
import { encodeRecord } from "@gateway/shared/audit";
import { readMessage } from "@gateway/shared/kubernetes";
import { decideSsh } from "@gateway/shared/policy";
import { createRedactor } from "../shared/redact/redact.ts";
import { assertLinearWork, compileSample, sampleConfig, sampleIntent } from "@gateway/shared/testing";
import { saysSomething } from "../debate/engine/graph/evidence.ts";

const CHARACTERS = [
  ...Array.from({ length: 95 }, (_, index) => String.fromCharCode(0x20 + index)),
  ..."\0\t\n\xa0é漢\u2028𝒜",
];

/** CPU time that no linear path reaches at its maximum length; a quadratic one takes more than a second. */
const SUSPECT_MS = 100;

const RULES = {
  mode: "allowlist",
  allow: ["^x", "a.*b", String.raw`\b(?:rm|dd)\b`],
  deny: ["y$"],
  require_approval: ["(?i)restart"],
} as const;

const policy = compileSample(sampleConfig({
  ...{ command_policy: RULES, allow_sudo: true, allow_file_transfer: true, stop_on_disconnect: true },
}));
const open = compileSample(sampleConfig({ allow_sudo: true }));
const redact = createRedactor(undefined);
/** With the start of a command, 64 KiB at most. */
const MAX_BYTES = 64 * 1024 - 32;

/** What texts of callers, hosts and API servers reach before or in a decision, with the longest that each accepts. */
const PATHS: readonly { readonly name: string; readonly length: number; run(text: string): void }[] = [
  ...[
    "",
    "x ",
    "x 'a' ",
    "printf ",
    "printf %",
    "printf '\\",
    "printf %d ",
    "test ",
    "test x -eq ",
    "wait -",
    "exit ",
    "/",
  ]
    .map((start) => ({
      name: `a command that begins with ${JSON.stringify(start)}`,
      length: MAX_BYTES,
      run: (text: string) => void decideSsh(policy, sampleIntent({ command: start + text })),
    })),
  {
    name: "words of a command in quotes",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `x '${text}'` })),
  },
  {
    name: "a name in quotes",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `"${text}" x` })),
  },
  {
    name: "a command name that ends otherwise",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `${text}x` })),
  },
  {
    name: "an elevated command",
    length: MAX_BYTES,
    run: (text) => void decideSsh(open, sampleIntent({ command: `x${text}`, sudo: true })),
  },
  {
    name: "a file transfer",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `x ${text}`, fileTransfer: true })),
  },
  {
    name: "the audit record",
    length: MAX_BYTES,
    run: (text) => void encodeRecord({ outcome: "denied", command_line: text }, { time: "t", redact }),
  },
  {
    name: "the message of an API server",
    length: MAX_BYTES,
    run: (text) => void readMessage(JSON.stringify({ kind: "Status", message: `[${text}` })),
  },
  {
    name: "a quote of a debate",
    length: MAX_BYTES,
    run: (text) => void saysSomething(`a${text}a`, ""),
  },
];

Deno.test.each(PATHS)("repeated characters cost linear work: $name", ({ length, run }) => {
  for (const character of CHARACTERS) {
    const start = threadCpuUsage();
    run(character.repeat(length));
    const { user, system } = threadCpuUsage(start);
    if (user + system < SUSPECT_MS * 1000) continue;
    assertLinearWork((size) => run(character.repeat(size)), length);
  }
});
