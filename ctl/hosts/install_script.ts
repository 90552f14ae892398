import { INSTALLER_TEXT, SHIM_TEXT, SHIM_V1_TEXT } from "@gateway/shim/texts";
import type { EnvelopeVersion } from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import { singleQuote } from "@gateway/shared/text";

/** What is to be done on a host. */
export interface InstallOptions {
  readonly format: EnvelopeVersion;
  /** The verifier of v1, bundled; absent: the one on the host stays. */
  readonly verifier?: string | undefined;
  /** The accounts that sessions log in to. */
  readonly accounts: readonly string[];
  /** Lines of the signer's keys, to take the place of those on the host or to stand beside them; else they stay. */
  readonly keys?: { readonly how: "replace" | "add"; readonly lines: readonly string[] };
  /** Only looks. */
  readonly check: boolean;
  readonly more: readonly string[];
}

/** A line of text that none of ours is. */
const END = "END_OF_GATEWAY_FILE";
const ALLOWED_SIGNER =
  /^signer namespaces="gateway-sealed-exec-v(?:2|3|2,gateway-sealed-exec-v3)" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}(?: .*)?$/;
const KEY_LINES: Readonly<Record<EnvelopeVersion, RegExp>> = {
  v1: /^[A-Za-z0-9+/]{43}=$/,
  v2: ALLOWED_SIGNER,
  v3: ALLOWED_SIGNER,
};

/**
 * Reads lines of keys (v2 and v3: OpenSSH's allowed signers format), without comments and blank lines.
 *
 * @throws {AppError} `invalid_config` for a line that the shim would not take, and when there is none
 */
export function parseSignerKeys(text: string, format: EnvelopeVersion): readonly string[] {
  const keyLine = KEY_LINES[format];
  const lines = text.split("\n").map((line) => line.trim());
  const bad = lines.findIndex((line) => line !== "" && !line.startsWith("#") && !keyLine.test(line));
  if (bad >= 0) {
    throw new AppError("invalid_config", `Cannot use the keys: line ${bad + 1} is none of format ${format}`);
  }
  const keys = lines.filter((line) => keyLine.test(line));
  if (keys.length === 0) throw new AppError("invalid_config", "Cannot use the keys: there is none");
  return keys;
}

/** A program of sh that carries the shim and what installs it, for root on the host. */
export function formatInstallScript(
  { format, verifier, accounts, keys, check, more }: InstallOptions,
): readonly string[] {
  const verifierLines = verifier?.trimEnd().split("\n") ?? [];
  if (verifierLines.includes(END)) {
    throw new AppError("invalid_config", "Cannot use the verifier: not a bundle");
  }
  const words = [
    ...["--src", '"$work/gateway-shim"', "--format", format],
    ...verifier === undefined ? [] : ["--verifier", '"$work/verifier"'],
    ...["--accounts", singleQuote(accounts.join(" "))],
    ...keys === undefined || check ? [] : [keys.how === "add" ? "--add-pubkey" : "--pubkey", '"$work/keys"'],
    ...check ? ["--check"] : [],
    ...more.map(singleQuote),
  ];
  return [
    "#!/bin/sh",
    // Read to the end before anything of it runs: what it starts can't read on in its place.
    "{",
    `# broker-ctl host install-shim: ${check ? "looks at" : "installs"} gateway-shim on this host, as root.`,
    "work=$(mktemp -d) || exit 1",
    `trap 'rm -rf "$work"' EXIT`,
    ...formatFile("gateway-shim", (format === "v1" ? SHIM_V1_TEXT : SHIM_TEXT).trimEnd().split("\n")),
    ...verifier === undefined ? [] : formatFile("verifier", verifierLines),
    ...formatFile("install", INSTALLER_TEXT.trimEnd().split("\n")),
    ...formatFile("keys", keys?.lines ?? []),
    `sh "$work/install" ${words.join(" ")} </dev/null`,
    "exit",
    "}",
  ];
}

function formatFile(name: string, lines: readonly string[]): readonly string[] {
  return [`cat >"$work/${name}" <<'${END}'`, ...lines, END];
}
