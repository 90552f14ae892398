/**
 * Elevation: the sudo prefix of a command, and the command text with it. The signer bakes the text into the
 * force-command and the broker uses the same routine for a session's commands.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { elevateCommand, elevationPrefix } from "@gateway/shared/policy";
 *
 * const prefix = elevationPrefix("deploy");
 * assert.equal(prefix, "sudo -n -u deploy");
 * assert.equal(elevateCommand(prefix, "systemctl status 'a b'"), "sudo -n -u deploy -- systemctl status 'a b'");
 * assert.equal(elevateCommand("sudo -n", "id; id"), "sudo -n -- /bin/sh -c 'id; id'");
 * ```
 *
 * @module
 */
import { quoteText, shellQuote, singleQuote } from "../text.ts";
import { parseScript } from "./shell.ts";

const SUDO_USER = /^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,31}$/;

const SHELL_ONLY: ReadonlySet<string> = new Set(
  (". : alias bg break builtin cd command continue declare dirs disown eval exec exit export fc fg getopts hash " +
    "jobs let local logout popd pushd read readonly return set shift shopt source suspend times trap type typeset " +
    "ulimit umask unalias unset wait").split(" "),
);

/** Whether a text can name an account that sudo changes to: no option, no second word, at most 32 characters. */
export function isSudoUser(user: string): boolean {
  return SUDO_USER.test(user);
}

/** The outcome of a wish for sudo. */
export type Elevation =
  | { readonly kind: "elevated"; readonly user: string; readonly prefix: string }
  | { readonly kind: "denied"; readonly reason: string };

/** What {@linkcode resolveElevation} asks of a host. */
interface ElevationPolicy {
  /** The logical name of the host, for reasons. */
  readonly name: string;
  /** Whether commands may be elevated at all. */
  readonly allowSudo: boolean;
  /** Accounts besides root, which `allowSudo` implies. */
  readonly allowedSudoUsers: ReadonlySet<string>;
}

/** Whether an intent may be elevated, and how; undefined when it does not ask for it. */
export function resolveElevation(
  host: ElevationPolicy,
  { sudo, sudoUser }: { readonly sudo: boolean; readonly sudoUser: string },
): Elevation | undefined {
  if (!sudo) return undefined;
  if (!host.allowSudo) {
    return {
      kind: "denied",
      reason: `host ${quoteText(host.name)} does not allow elevation (allow_sudo=false)`,
    };
  }
  const user = canonicalSudoUser(sudo, sudoUser);
  if (!isSudoUser(user)) return { kind: "denied", reason: `invalid sudo_user: ${quoteText(user)}` };
  if (user !== "root" && !host.allowedSudoUsers.has(user)) {
    return {
      kind: "denied",
      reason: `sudo_user ${quoteText(user)} is not allowed on ${quoteText(host.name)}`,
    };
  }
  return { kind: "elevated", user, prefix: elevationPrefix(user) };
}

/**
 * The words that elevate a command to an account; an empty one is root.
 *
 * @throws {RangeError} when the name is not an account's, which the caller has to have checked.
 */
export function elevationPrefix(sudoUser: string): string {
  const user = canonicalSudoUser(true, sudoUser);
  if (!isSudoUser(user)) throw new RangeError("Cannot elevate to an account of this name");
  return user === "root" ? "sudo -n" : `sudo -n -u ${user}`;
}

/**
 * The text that runs a command elevated. One simple command of known words becomes `<prefix> -- word…`, so that
 * a narrow sudoers rule can name it; anything else, and what only a shell knows (`cd`, `umask`), becomes
 * `<prefix> -- /bin/sh -c '<command>'`.
 */
export function elevateCommand(prefix: string, command: string): string {
  const wellFormed = command.toWellFormed();
  const words = findPlainWords(wellFormed);
  return words === undefined
    ? `${prefix} -- /bin/sh -c ${singleQuote(wellFormed)}`
    : `${prefix} -- ${words.map(shellQuote).join(" ")}`;
}

function findPlainWords(command: string): readonly string[] | undefined {
  const parsed = parseScript(command);
  if (parsed.kind === "refused" || parsed.commands.length !== 1) return undefined;
  const [only] = parsed.commands;
  if (only === undefined || only.duplications > 0) return undefined;
  const [name = ""] = only.words;
  // sudo reads a leading word with `=` as an environment assignment.
  return name === "" || name.includes("=") || SHELL_ONLY.has(name) ? undefined : only.words;
}

/** The account that sudo changes to, in one spelling: empty without sudo, `root` where none is named. */
export function canonicalSudoUser(sudo: boolean | undefined, sudoUser: string | undefined): string {
  return sudo === true ? sudoUser || "root" : "";
}

/** What a request runs as beyond the login on the host, as records have it: `sudo:<account>`, or empty. */
export function elevationLabel(sudo: boolean | undefined, sudoUser: string | undefined): string {
  const user = canonicalSudoUser(sudo, sudoUser);
  return user === "" ? "" : `sudo:${user}`;
}
