import { dirname, join, parse, relative, resolve, sep } from "node:path";
import type { Clock, Random } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { formatMode, ifThere, mayOthersWrite, tryLockFile } from "@gateway/shared/files";
import { quoteText, writeAll } from "@gateway/shared/text";
import { conflict, internal, invalid } from "../kit/output.ts";
import { IDENTITIES, type Identity, type Layout, SET_UP_ENTRIES } from "./layout.ts";
import { type ConfigKind, parseConfig } from "@gateway/shared/config";
import { ed25519PublicKey, encodeOpensshPrivateKey, formatPublicKey } from "@gateway/shared/ssh";
import { LOCAL_NAMES } from "../identities/kinds.ts";
import { encodePkcs12, randomPassword } from "../identities/pkcs12.ts";
import type { CertificatePair } from "../identities/x509.ts";
import { CONFIG_KINDS } from "../kit/signer_file.ts";
import {
  type ConfigChoices,
  formatBrokerConfig,
  formatClientConfig,
  formatControlPlaneConfig,
  formatMcpConfig,
  formatPolicyTests,
  formatSignerConfig,
} from "./config_text.ts";
import type { Runtime } from "./guide.ts";

interface WriteOptions {
  readonly folder: string;
  /** Move an existing installation to a backup directory. */
  readonly force: boolean;
  readonly clock: Clock;
  readonly random: Random;
}

const FOLDER_MODE = 0o700;

/** The entries of an installation in a directory, also dangling links. */
async function findEntries(folder: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of SET_UP_ENTRIES) if (await exists(join(folder, name))) found.push(name);
  return found;
}

/** Rejects a directory that has an installation, or is not safe for one. */
export async function checkFree({ folder, force }: Pick<WriteOptions, "folder" | "force">): Promise<void> {
  await checkFolder(folder);
  const [name] = force ? [] : await findEntries(folder);
  if (name === undefined) return;
  throw conflict(`Cannot set up ${JSON.stringify(folder)}: ${JSON.stringify(name)} exists`);
}

/**
 * Writes an installation to a private directory, moves the previous one to a backup, and then moves the new entries into
 * place in the planned order. A failure before the last step changes nothing.
 *
 * @returns the directory of the previous installation, if there was one
 */
export async function writeInstallation(plan: readonly PlannedEntry[], options: WriteOptions) {
  const { folder: directory, random } = options;
  const explain = (cause: unknown) => {
    const message = `Cannot set up ${JSON.stringify(directory)}: ${errorText(cause)}; nothing was written`;
    throw internal(message, cause);
  };
  await createFolder(directory).catch(explain);
  // Lock the directory: two concurrent inits would mix the keys of one with the configs of the other.
  using lock = await tryLockFile(directory);
  if (lock === undefined) {
    const message = `Cannot set up ${JSON.stringify(directory)}: another init is running; try again`;
    throw new AppError("conflict", message, { retryAfterSeconds: 1 });
  }
  // Check again, because another user may have created entries in the meantime.
  await checkFree(options);
  const staging = join(directory, `.init.${random.bytes(8).toHex()}`);
  try {
    await writeEntries(plan, staging).catch(explain);
    const backup = options.force ? await moveAside(options) : undefined;
    try {
      for (const { path } of plan.filter((entry) => !entry.path.includes("/"))) {
        await Deno.rename(join(staging, path), join(directory, path));
      }
    } catch (cause) {
      const former = backup && `; the previous installation is in ${JSON.stringify(backup)}`;
      const problem = `Cannot finish the installation in ${JSON.stringify(directory)}`;
      throw internal(`${problem}: ${errorText(cause)}${former ?? ""}`, cause);
    }
    return { backup };
  } finally {
    await ifThere(Deno.remove(staging, { recursive: true }));
  }
}

async function createFolder(directory: string): Promise<void> {
  if (await exists(directory)) return;
  // Regardless of the umask, other users must not write to the directories above keys.
  await Deno.mkdir(dirname(directory), { recursive: true, mode: 0o755 });
  await createPrivateFolder(directory);
}

/** The umask changes the mode at creation. */
async function createPrivateFolder(path: string): Promise<void> {
  await Deno.mkdir(path, { mode: FOLDER_MODE });
  await Deno.chmod(path, FOLDER_MODE);
}

async function writeEntries(plan: readonly PlannedEntry[], staging: string): Promise<void> {
  await createPrivateFolder(staging);
  for (const { path, mode, content } of plan) {
    const at = join(staging, path);
    if (content === undefined) await createPrivateFolder(at);
    else {
      using file = await Deno.open(at, { write: true, createNew: true, mode: 0o600 });
      await writeAll(file, typeof content === "string" ? new TextEncoder().encode(content) : content);
      await file.syncData();
    }
    await Deno.chmod(at, mode);
  }
}

async function moveAside({ folder: directory, clock }: WriteOptions): Promise<string | undefined> {
  const entries = await findEntries(directory);
  if (entries.length === 0) return undefined;
  const backup = await createBackupFolder(directory, clock.now());
  for (const name of entries) await Deno.rename(join(directory, name), join(backup, name));
  return backup;
}

async function createBackupFolder(directory: string, now: number): Promise<string> {
  const stamp = new Date(now).toISOString().replace(/\.\d+|[-:]/g, "");
  for (let number = 1;; number++) {
    const path = join(directory, `backup-${stamp}${number === 1 ? "" : `-${number}`}`);
    try {
      await createPrivateFolder(path);
      return path;
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}

/** A dangling link counts too. */
async function exists(path: string): Promise<boolean> {
  return await ifThere(Deno.lstat(path)) !== undefined;
}

/**
 * The reason why keys must not be stored in a directory or below it: it is in a version control checkout, so
 * they could be committed.
 */
async function whyCheckout(path: string): Promise<string | undefined> {
  const is = await exists(join(path, ".git")) || await exists(join(path, "ctl/start.ts"));
  const advice = "pass --dir with another directory";
  return is ? `${quoteText(path)} is a git work tree or source checkout; ${advice}` : undefined;
}

const MAX_LINKS = 40;

/**
 * Rejects a directory for keys if another user could replace it or a directory above it. Missing directories are not
 * checked.
 *
 * @param directory absolute
 */
export async function checkFolder(directory: string): Promise<void> {
  const self = Deno.uid();
  // A system without owners has no modes either.
  if (self === null) return;
  const top = await lookAt(parse(directory).root);
  const trusted = { self, root: top?.uid ?? 0 };
  const refuse = (why: string | undefined) => {
    if (why === undefined) return;
    throw invalid(`Cannot set up ${JSON.stringify(directory)}: ${why}`);
  };
  const own = await lookAt(directory);
  if (own !== undefined) refuse(whyUnsafeFolder(own, trusted) ?? await whyCheckout(directory));
  const ways = [dirname(directory)];
  // The loop adds the targets of links.
  for (const way of ways) {
    for (const path of partsOf(way)) {
      const part = await lookAt(path);
      if (part === undefined) break;
      refuse(whyUnsafe(part, trusted) ?? await whyCheckout(path));
      if (part.isLink) ways.push(resolve(await Deno.realPath(dirname(path)), await Deno.readLink(path)));
    }
    if (ways.length > MAX_LINKS) refuse("its path contains too many symbolic links");
  }
}

/** The directories above a path, from the root on, and the path itself. */
function partsOf(path: string): readonly string[] {
  const { root } = parse(path);
  let part = root;
  return [root, ...path.slice(root.length).split(sep).filter(Boolean).map((name) => part = join(part, name))];
}

async function lookAt(path: string) {
  const info = await ifThere(Deno.lstat(path));
  if (info === undefined) return undefined;
  return { path, isLink: info.isSymlink, uid: info.uid ?? 0, mode: info.mode ?? 0 };
}

type PathPart = NonNullable<Awaited<ReturnType<typeof lookAt>>>;

interface Trusted {
  readonly self: number;
  /** The owner of the root of the file system: in a container that may be `nobody`. */
  readonly root: number;
}

const STICKY = 0o1000;

/**
 * The reason why keys must not be below a part of a path; `undefined` if they may.
 *
 * @param part a directory, or a link to one, whose own path is checked as well
 */
export function whyUnsafe(part: PathPart, trusted: Trusted): string | undefined {
  const { path, isLink, uid, mode } = part;
  if (uid !== trusted.self && uid !== trusted.root && uid !== 0) {
    return `${quoteText(path)} belongs to another user (uid ${uid})`;
  }
  // In a sticky directory, only the owner can replace an entry, and the owner of the next part is checked.
  if (isLink || (mode & STICKY) !== 0) return undefined;
  return whyWritable(part);
}

/** The reason why keys must not be directly in a directory. A link and a sticky directory are rejected too. */
export function whyUnsafeFolder(part: PathPart, trusted: Trusted): string | undefined {
  if (part.isLink) return `${quoteText(part.path)} is a symbolic link; pass its target directory`;
  return whyUnsafe(part, trusted) ?? whyWritable(part);
}

function whyWritable(part: PathPart): string | undefined {
  if (!mayOthersWrite(part)) return undefined;
  const { path, mode } = part;
  const advice = `run chmod go-w ${path}, or use another directory`;
  return `other users may write to ${quoteText(path)} (mode ${formatMode(mode)}); ${advice}`;
}

const SEED_BYTES = 32;
const SECRET_MODE = 0o600;
const PUBLIC_MODE = 0o644;
const CONFIG_MODE = 0o640;
const IDENTITY_NAMES = Object.keys(IDENTITIES) as Identity[];
const DENIED_CALLERS =
  "# CNs of rejected certificates, one per line. Written by broker-ctl identity revoke.\n";

export type KeyMaterial = Awaited<ReturnType<typeof createKeyMaterial>>;

/**
 * Creates the keys and certificates of an installation; no file is touched.
 *
 * @param names the names of the listeners, in addition to loopback
 */
export async function createKeyMaterial(random: Random, names: readonly string[] = []) {
  const { createCertificateAuthority, issueLeaf } = await import("../identities/x509.ts");
  const seed = () => random.bytes(SEED_BYTES);
  const sshCaSeed = seed();
  const commonName = "gateway local mTLS CA";
  const authority = await createCertificateAuthority({ commonName, localOnly: true, names, random });
  const leaves = {} as Record<Identity, CertificatePair>;
  for (const identity of IDENTITY_NAMES) {
    const { subject, usage } = IDENTITIES[identity];
    const subjectAltNames = usage === "server" ? [...LOCAL_NAMES, ...names] : [];
    leaves[identity] = await issueLeaf(authority, { subject, usage, random, subjectAltNames });
  }
  const approverPassword = randomPassword(random);
  return {
    sshCa: encodeOpensshPrivateKey(sshCaSeed, "gateway-ssh-ca"),
    sshCaPublic: formatPublicKey("ssh-ed25519", ed25519PublicKey(sshCaSeed)),
    mtlsCa: { certPem: authority.certPem, keyPem: authority.keyPem },
    leaves,
    approverBundle: encodePkcs12(leaves.approver, {
      password: approverPassword,
      name: "approver-local",
      random,
    }),
    /** This password is not stored in any file. */
    approverPassword,
    seeds: { signer: seed(), controlPlane: seed(), broker: seed(), mcp: seed(), envelope: seed() },
  };
}

export interface PlannedEntry {
  readonly path: string;
  /** The exact permission bits, regardless of the umask. */
  readonly mode: number;
  readonly content?: string | Uint8Array;
}

/**
 * Plans the entries of an installation: directories before their files, and `signer.json` last, because without it a
 * directory does not look like an installation.
 */
export function planInstallation(
  layout: Layout,
  choices: ConfigChoices,
  material: KeyMaterial,
): readonly PlannedEntry[] {
  const { audit, pairs } = layout;
  const { leaves, mtlsCa, seeds } = material;
  const folder = (path: string) => ({ path, mode: FOLDER_MODE });
  const file = (path: string, mode: number, content: string | Uint8Array) => ({
    path: relative(layout.folder, path),
    mode,
    content,
  });
  const secret = (path: string, content: string | Uint8Array) => file(path, SECRET_MODE, content);
  const config = (source: string, kind: ConfigKind<object>, text: string) => {
    parseConfig({ ...kind, text, source });
    return file(source, CONFIG_MODE, text);
  };
  const { route, kept, hosts } = choices;
  const signer = formatSignerConfig(layout, choices);
  const entries = [
    ...["pki", "log", "log/signer", "log/control-plane", "log/broker", "log/mcp", "state"].map(folder),
    secret(layout.sshCa, material.sshCa),
    file(layout.sshCaPublic, PUBLIC_MODE, `${material.sshCaPublic}\n`),
    file(layout.mtlsCa, PUBLIC_MODE, mtlsCa.certPem),
    file(layout.deniedCallers, PUBLIC_MODE, DENIED_CALLERS),
    secret(layout.mtlsCaKey, mtlsCa.keyPem),
    ...IDENTITY_NAMES.flatMap((identity) => [
      file(pairs[identity].cert, PUBLIC_MODE, leaves[identity].certPem),
      secret(pairs[identity].key, leaves[identity].keyPem),
    ]),
    secret(layout.approverBundle, material.approverBundle),
    ...(["signer", "controlPlane", "broker", "mcp"] as const).map((name) =>
      secret(audit[name].key, seeds[name])
    ),
    secret(layout.envelopeKey, seeds.envelope),
    config(layout.clientConfig, CONFIG_KINDS.client, formatClientConfig(layout, choices)),
    config(layout.brokerConfig, CONFIG_KINDS.broker, formatBrokerConfig(layout, choices)),
    config(layout.mcpConfig, CONFIG_KINDS.broker, formatMcpConfig(layout, choices)),
    config(layout.controlPlaneConfig, CONFIG_KINDS.controlPlane, formatControlPlaneConfig(layout, choices)),
    ...kept?.files ??
      hosts.slice(0, 1).map((host) => file(layout.policyTests, CONFIG_MODE, formatPolicyTests(layout, host))),
    config(layout.signerConfig, CONFIG_KINDS.signer, kept?.withPolicy(signer) ?? signer),
  ];
  return route === "local" ? entries.filter(({ path }) => LOCAL.test(path)) : entries;
}

/** The entries of a local installation. */
const LOCAL =
  /^(?:pki(?:\/(?:ssh_ca(?:\.pub)?|mcp_audit\.seed))?|log(?:\/mcp)?|mcp\.json|policy_tests\.jsonc)$/;

/** A systemd service and its timer that renew certificates; they do nothing until an operator enables them. */
export function renewalUnits(layout: Layout, { deno, sources }: Runtime): readonly PlannedEntry[] {
  const program = deno === undefined
    ? ["/usr/bin/env", "broker-ctl"]
    : [deno, "run", "--quiet", "--no-prompt", "-P=broker-ctl", join(sources, "ctl/main.ts")];
  const words = [...program, "identity", "renew", "--due", "--config", layout.signerConfig];
  return [
    { path: "systemd", mode: 0o755 },
    {
      ...{ path: "systemd/gateway-renew.service", mode: PUBLIC_MODE },
      content: `# Created by broker-ctl init.
[Unit]
Description=Renew the gateway's certificates that expire soon

[Service]
Type=oneshot
ExecStart=${words.map((word) => `"${escape(word)}"`).join(" ")}
`,
    },
    {
      ...{ path: "systemd/gateway-renew.timer", mode: PUBLIC_MODE },
      content:
        `# Created by broker-ctl init. As root: systemctl link ${layout.folder}/systemd/gateway-renew.service, then
# systemctl enable --now ${layout.folder}/systemd/gateway-renew.timer
[Unit]
Description=Renew the gateway's certificates that expire soon

[Timer]
OnCalendar=daily
RandomizedDelaySec=1h
Persistent=true

[Install]
WantedBy=timers.target
`,
    },
  ];
}

/** Quotes a word for systemd.unit(5): `%` begins a specifier, `$` a variable, and quotes contain C escapes. */
function escape(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("%", "%%").replaceAll("$", "$$$$");
}
