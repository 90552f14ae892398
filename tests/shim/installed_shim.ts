import {
  allowedSignersLine,
  type EnvelopeKey,
  envelopePublicKeyText,
  envelopeSignersLine,
} from "@gateway/shared/envelope";
import { type EnvelopeFields, envelopeKey, sealV1, sealV2, sealV3 } from "./envelopes.ts";

export const HOST = "web01";
/** The signer's key, and an unknown key. */
export const SIGNER_KEY: EnvelopeKey = envelopeKey(1);
/** Another key of the same signer, before or after a rotation. */
export const NEXT_KEY: EnvelopeKey = envelopeKey(2);
/** A key that is installed on no host. */
export const FOREIGN_KEY: EnvelopeKey = envelopeKey(3);

const ROOT = new URL("../../", import.meta.url).pathname;

/** A format: its shim, and the encoding of its envelopes and keys. */
export interface ShimFormat {
  readonly name: "v1" | "v2" | "v3";
  readonly program: string;
  /** The path from which an installed shim reads its keys. */
  readonly keyPath: string;
  keyLine(key: EnvelopeKey): string;
  seal(fields: EnvelopeFields, key: EnvelopeKey): string;
}

/** All formats by name. Keys of v2 are in the form that was installed before v3. */
export const FORMATS = {
  v1: {
    name: "v1",
    program: "gateway-shim-v1",
    keyPath: "/etc/gateway/envelope.pub",
    keyLine: envelopePublicKeyText,
    seal: sealV1,
  },
  v2: {
    name: "v2",
    program: "gateway-shim",
    keyPath: "/etc/gateway/envelope_signers",
    keyLine: (key) => allowedSignersLine(key, ["gateway-sealed-exec-v2"]),
    seal: sealV2,
  },
  v3: {
    name: "v3",
    program: "gateway-shim",
    keyPath: "/etc/gateway/envelope_signers",
    keyLine: envelopeSignersLine,
    seal: sealV3,
  },
} as const satisfies Record<string, ShimFormat>;

/** Options of a run besides the envelope. */
export interface RunOptions {
  /** The arguments; the host's name when absent. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Shell commands that run first in the process that becomes the shim. */
  readonly before?: string;
}

export interface RunResult {
  readonly code: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A shim as installed on a host, except that its files are in a temporary directory. */
export class InstalledShim implements AsyncDisposable {
  readonly format: ShimFormat;
  readonly folder: string;
  readonly words: readonly string[];

  readonly store: string;

  private constructor(format: ShimFormat, folder: string, shell: readonly string[], store: string) {
    this.format = format;
    this.store = store;
    this.folder = folder;
    this.words = [...shell, `${folder}/gateway-shim`];
  }

  /**
   * @param shell the words of the shell that interprets it
   * @param disk directory of used nonces (default: next to the shim)
   */
  static async create(
    format: ShimFormat,
    shell: readonly string[] = ["sh"],
    disk?: string,
  ): Promise<InstalledShim> {
    const folder = await Deno.makeTempDir({ prefix: "shim-" });
    const shim = new InstalledShim(format, folder, shell, `${disk ?? folder}/nonces`);
    // The installed paths are fixed on purpose: only a changed program text can replace them.
    const paths: Readonly<Record<string, string>> = {
      [format.keyPath]: shim.keyFile,
      "/var/lib/gateway-shim/nonces": shim.store,
      "$directory/main.ts": `${ROOT}shim/main.ts`,
      "PATH=/usr/local/bin:": `PATH=${Deno.execPath().replace(/\/[^/]*$/, "")}:/usr/local/bin:`,
    };
    let text = await Deno.readTextFile(`${ROOT}shim/${format.program}`);
    for (const [path, own] of Object.entries(paths)) text = text.replaceAll(path, own);
    await Deno.writeTextFile(`${folder}/gateway-shim`, text, { mode: 0o755 });
    await Deno.mkdir(shim.store);
    await shim.writeKeys(format.keyLine(SIGNER_KEY));
    return shim;
  }

  get keyFile(): string {
    return `${this.folder}/keys`;
  }

  /** Replaces the pinned keys by these lines. */
  async writeKeys(...lines: readonly string[]): Promise<void> {
    await Deno.writeTextFile(this.keyFile, lines.map((line) => `${line}\n`).join(""));
  }

  async edit(from: string, to: string): Promise<void> {
    const path = `${this.folder}/gateway-shim`;
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, text.replaceAll(from, to));
  }

  /** An envelope for this host that expires in 30 seconds. `fields` replaces parts of it. */
  seal(fields: Partial<EnvelopeFields> = {}, key: EnvelopeKey = SIGNER_KEY): string {
    return this.format.seal(freshFields(fields), key);
  }

  async run(envelope: string | undefined, options: RunOptions = {}): Promise<RunResult> {
    const { args = [HOST], env = {}, stdin = "", before = ":" } = options;
    const process = new Deno.Command("sh", {
      args: ["-c", `${before}; exec "$@"`, "sh", ...this.words, ...args],
      clearEnv: true,
      env: {
        PATH: "/usr/bin:/bin",
        ...env,
        ...envelope === undefined ? {} : { SSH_ORIGINAL_COMMAND: envelope },
      },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    return await finish(process, stdin);
  }

  /** Bundles the verifier of v1 into one file next to the launcher, as on a host. */
  async bundle(): Promise<void> {
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["bundle", "--quiet", "--platform=deno", "-o", `${this.folder}/gateway-shim-verify.mjs`],
        `${ROOT}shim/main.ts`,
      ],
      stdout: "null",
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  }

  /** The names of the used nonces. */
  claims(): string[] {
    return [...Deno.readDirSync(this.store)].map(({ name }) => name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** Fields of an envelope that is valid now, with the given changes. */
export function freshFields(fields: Partial<EnvelopeFields> = {}): EnvelopeFields {
  return {
    nonce: crypto.getRandomValues(new Uint8Array(16)).toHex(),
    host: HOST,
    command: "echo done",
    expiry: secondsFromNow(30),
    ...fields,
  };
}

export function secondsFromNow(seconds: number): string {
  return String(Math.floor(Date.now() / 1000) + seconds);
}

/** Writes the input to a process and waits until it ends. */
export async function finish(process: Deno.ChildProcess, stdin: string): Promise<RunResult> {
  const writer = process.stdin.getWriter();
  // The shim does not read stdin if it rejects the envelope.
  await writer.write(new TextEncoder().encode(stdin)).catch(() => undefined);
  await writer.close().catch(() => undefined);
  const { code, signal, stdout, stderr } = await process.output();
  const decoder = new TextDecoder();
  return { code, signal, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}
