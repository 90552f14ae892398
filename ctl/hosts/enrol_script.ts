import { singleQuote } from "@gateway/shared/text";
import program from "./enrol_host.sh" with { type: "text" };

export interface EnrolOptions {
  readonly mode: "add" | "remove" | "status" | "keep" | "undo";
  /** The account that certificates log in to. */
  readonly user: string;
  readonly principal: string;
  /** Public keys of CAs, a line each. */
  readonly ca: readonly string[];
  /** The keys that the host must trust no more. */
  readonly dropCa?: readonly string[];
  /** The config that sshd is started with, if not its own. */
  readonly sshdConfig: string | undefined;
  /** The host undoes everything after this time, unless told to keep it. */
  readonly confirmSeconds?: number;
}

/** A program of sh that carries the enrolment of a host, for root there. */
export function formatEnrolScript(options: EnrolOptions): readonly string[] {
  const { mode, user, principal, ca, dropCa = [], sshdConfig, confirmSeconds } = options;
  const words = [
    ...mode === "add" ? [] : [`--${mode}`],
    ...["--user", singleQuote(user), "--principal", singleQuote(principal), "--ca", '"$work/ca"'],
    ...dropCa.length === 0 ? [] : ["--drop-ca", '"$work/drop"'],
    ...sshdConfig === undefined ? [] : ["--sshd-config", singleQuote(sshdConfig)],
    ...confirmSeconds === undefined ? [] : ["--confirm", String(confirmSeconds)],
  ];
  const files = { enrol: program.trimEnd().split("\n"), ca, drop: dropCa };
  return formatProgram(
    `broker-ctl host enrol: ${mode}, as root.`,
    files,
    `sh "$work/enrol" ${words.join(" ")}`,
  );
}

/** A line of text that no carried file contains. */
export const END = "END_OF_GATEWAY_FILE";

/** A program of sh that writes files to a temporary directory and runs a command there. */
export function formatProgram(
  comment: string,
  files: Readonly<Record<string, readonly string[]>>,
  command: string,
): readonly string[] {
  return [
    "#!/bin/sh",
    // The shell reads to the closing brace before it runs anything: the command can't read on in the shell's place.
    "{",
    `# ${comment}`,
    "work=$(mktemp -d) || exit 1",
    `trap 'rm -rf "$work"' EXIT`,
    ...Object.entries(files).flatMap(([name, lines]) => [`cat >"$work/${name}" <<'${END}'`, ...lines, END]),
    `${command} </dev/null`,
    "exit",
    "}",
  ];
}
