import { FORMATS, type InstalledShim, type RunOptions, SIGNER_KEY } from "./installed_shim.ts";

export interface RefusedCase {
  readonly name: string;
  /** The only format that the case applies to; both when absent. */
  readonly only?: "v1" | "v2";
  /** The text from the broker (default: a valid envelope). */
  envelope?(shim: InstalledShim): string | undefined;
  arrange?(shim: InstalledShim): Promise<void>;
  readonly options?: RunOptions;
  /** The shim's message. `KEYS` and `STORE` are placeholders of its files. */
  readonly reason: string;
}

const BAD_NAME = "the argument is not the name of a host";
const ONE_ARGUMENT = "expected one argument, the name of this host";
const NO_RECORD = "cannot record the envelope's use in STORE";

const ARGUMENTS: readonly RefusedCase[] = [
  { name: "no argument", options: { args: [] }, reason: ONE_ARGUMENT },
  { name: "two arguments", options: { args: ["web01", "web02"] }, reason: ONE_ARGUMENT },
  { name: "an empty argument", options: { args: [""] }, reason: BAD_NAME },
  { name: "an option", options: { args: ["--help"] }, reason: BAD_NAME },
  { name: "--version with an argument", options: { args: ["--version", "x"] }, reason: ONE_ARGUMENT },
  { name: "a name with a line feed", options: { args: ["web01\nx"] }, reason: BAD_NAME },
  { name: "a name of 65 letters", options: { args: ["a".repeat(65)] }, reason: BAD_NAME },
];

const KEY_FILE: readonly RefusedCase[] = [
  { name: "no key file", arrange: (shim) => Deno.remove(shim.keyFile), reason: "cannot read KEYS" },
  { name: "a directory in place of a key file", arrange: replaceKeysByFolder, reason: "cannot read KEYS" },
  { name: "a pipe in place of a key file", arrange: replaceKeysByPipe, reason: "cannot read KEYS" },
  { name: "an empty key file", arrange: (shim) => shim.writeKeys(), reason: "no key in KEYS" },
  {
    name: "only comments",
    arrange: (shim) => shim.writeKeys("# nothing", "", "  # here"),
    reason: "no key in KEYS",
  },
  {
    name: "an invalid line after a valid one",
    arrange: (shim) => shim.writeKeys(good(shim), "x"),
    reason: badLine(2),
  },
  {
    name: "an invalid line before a valid one",
    arrange: (shim) => shim.writeKeys("", "x", good(shim)),
    reason: badLine(2),
  },
  {
    name: "a truncated key",
    arrange: (shim) => shim.writeKeys(good(shim).slice(0, -1)),
    reason: badLine(1),
  },
  { name: "a key that is too long", arrange: (shim) => shim.writeKeys(`${good(shim)}A`), reason: badLine(1) },
  {
    name: "a key with a character outside base64",
    arrange: (shim) => shim.writeKeys(good(shim).replace(/.{5}$/, "-AAA=")),
    reason: badLine(1),
  },
  {
    name: "an invalid last line without a line feed",
    arrange: (shim) => Deno.writeTextFile(shim.keyFile, `${good(shim)}\nx`),
    reason: badLine(2),
  },
  {
    name: "two keys on one line",
    only: "v1",
    arrange: (shim) => shim.writeKeys(`${good(shim)} ${good(shim)}`),
    reason: badLine(1),
  },
  {
    name: "a key of the other format",
    only: "v1",
    arrange: (shim) => shim.writeKeys(FORMATS.v2.keyLine(SIGNER_KEY)),
    reason: badLine(1),
  },
  {
    name: "a key of the other format",
    only: "v2",
    arrange: (shim) => shim.writeKeys(FORMATS.v1.keyLine(SIGNER_KEY)),
    reason: badLine(1),
  },
  {
    name: "a key for every principal",
    only: "v2",
    arrange: (shim) => shim.writeKeys(good(shim).replace("signer", "*")),
    reason: badLine(1),
  },
  {
    name: "a key for any namespace",
    only: "v2",
    arrange: (shim) => shim.writeKeys(good(shim).replace(/ namespaces=\S*/, "")),
    reason: badLine(1),
  },
  {
    name: "a key for another namespace",
    only: "v2",
    arrange: (shim) => shim.writeKeys(good(shim).replace("exec", "x")),
    reason: badLine(1),
  },
  {
    name: "a certificate authority in place of a key",
    only: "v2",
    arrange: (shim) => shim.writeKeys(good(shim).replace(" n", " cert-authority,n")),
    reason: badLine(1),
  },
];

const STORE: readonly RefusedCase[] = [
  { name: "a file in place of the store", arrange: replaceStoreByFile, reason: NO_RECORD },
  { name: "a store that is a dangling link", arrange: replaceStoreByLink, reason: NO_RECORD },
];

function good({ format }: InstalledShim): string {
  return format.keyLine(SIGNER_KEY);
}

function badLine(number: number): string {
  return `line ${number} of KEYS is not a key of the signer`;
}

async function replaceKeysByPipe({ keyFile }: InstalledShim): Promise<void> {
  await Deno.remove(keyFile);
  await new Deno.Command("mkfifo", { args: [keyFile] }).output();
}

async function replaceKeysByFolder({ keyFile }: InstalledShim): Promise<void> {
  await Deno.remove(keyFile);
  await Deno.mkdir(keyFile);
}

async function replaceStoreByFile({ store }: InstalledShim): Promise<void> {
  await Deno.remove(store);
  await Deno.writeTextFile(store, "");
}

async function replaceStoreByLink({ store }: InstalledShim): Promise<void> {
  await Deno.remove(store);
  await Deno.symlink("/proc/none", store);
}

const PROGRAMS: readonly RefusedCase[] = [
  {
    name: "without ssh-keygen",
    only: "v2",
    arrange: (shim) => shim.edit("ssh-keygen -Y", "no-ssh-keygen -Y"),
    reason: "cannot run ssh-keygen",
  },
  {
    name: "without Deno",
    only: "v1",
    arrange: (shim) => shim.edit("deno run", "./no-deno run"),
    reason: "the verifier did not run",
  },
  {
    name: "if the verifier fails",
    only: "v1",
    arrange: (shim) => shim.edit("--no-prompt", "--no-such-option"),
    reason: "the verifier did not run",
  },
];

/** Rejections that are not caused by the envelope. */
export const HOST_CASES: readonly RefusedCase[] = [...ARGUMENTS, ...KEY_FILE, ...STORE, ...PROGRAMS];
