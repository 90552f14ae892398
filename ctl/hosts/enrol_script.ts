import { singleQuote } from "@gateway/shared/text";
import program from "./enrol_host.sh" with { type: "text" };

/** What is to be done on a host. */
export interface EnrolOptions {
  readonly mode: "add" | "remove" | "status" | "keep" | "undo";
  /** The account that certificates log in to. */
  readonly user: string;
  readonly principal: string;
  /** Public keys of CAs, a line each. */
  readonly ca: readonly string[];
  /** Those that are to be trusted no more. */
  readonly dropCa?: readonly string[];
  /** What sshd is started with, if not its own. */
  readonly sshdConfig: string | undefined;
  /** Everything is undone after so many seconds, unless it is kept. */
  readonly confirmSeconds?: number;
}

/** A line of text that none of ours is. */
const END = "END_OF_GATEWAY_FILE";

/** A program of sh that carries what enrols a host, for root there. */
export function formatEnrolScript(options: EnrolOptions): readonly string[] {
  const { mode, user, principal, ca, dropCa = [], sshdConfig, confirmSeconds } = options;
  const words = [
    ...mode === "add" ? [] : [`--${mode}`],
    ...["--user", singleQuote(user), "--principal", singleQuote(principal), "--ca", '"$work/ca"'],
    ...dropCa.length === 0 ? [] : ["--drop-ca", '"$work/drop"'],
    ...sshdConfig === undefined ? [] : ["--sshd-config", singleQuote(sshdConfig)],
    ...confirmSeconds === undefined ? [] : ["--confirm", String(confirmSeconds)],
  ];
  return [
    "#!/bin/sh",
    // Read to the end before anything of it runs: what it starts can't read on in its place.
    "{",
    `# broker-ctl host enrol: ${mode}, as root.`,
    "work=$(mktemp -d) || exit 1",
    `trap 'rm -rf "$work"' EXIT`,
    ...formatFile("enrol", ENROL_TEXT.trimEnd().split("\n")),
    ...formatFile("ca", ca),
    ...formatFile("drop", dropCa),
    `sh "$work/enrol" ${words.join(" ")} </dev/null`,
    "exit",
    "}",
  ];
}

function formatFile(name: string, lines: readonly string[]): readonly string[] {
  return [`cat >"$work/${name}" <<'${END}'`, ...lines, END];
}

/** What enrols a host, a program of sh, which explains its options itself. */
const ENROL_TEXT: string = program;
