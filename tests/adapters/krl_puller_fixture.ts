/** Fixture of the tests of gateway-krl: a fake signer with configurable answers, and the directory of a host. */
import { allowedSignersLine, createEnvelopeKey, type EnvelopeKey } from "@gateway/shared/envelope";
import type { MtlsServer } from "@gateway/shared/http";
import { encodeKrl, SerialSet } from "@gateway/shared/ssh";
import { KRL_NAMESPACE } from "@gateway/shared/wire";
import { PublishedList } from "../../signer/live/krl/certificates.ts";
import { ca, issue, startServer } from "./mtls_fixture.ts";

export const KEY: EnvelopeKey = createEnvelopeKey(new Uint8Array(32).fill(5));
const SCRIPT = new URL("../../shim/gateway-krl", import.meta.url).pathname;
const client = await issue({ subject: "CN=web01.krl", usage: "client" });

/** A list whose serial encodes its version. */
export function listOf(version: number): PublishedList {
  const serials = SerialSet.of([BigInt(version)]);
  return new PublishedList(
    version,
    encodeKrl({
      version: BigInt(version),
      generatedAt: 1_700_000_000,
      comment: "gateway",
      serials,
      keyIds: [],
    }),
  );
}

export interface Answers {
  list: PublishedList;
  /** Replaces the bytes of the list. */
  body?: Uint8Array<ArrayBuffer> | undefined;
  /** Replaces the signature. */
  signature?: string | undefined;
  status?: number | undefined;
  key?: EnvelopeKey | undefined;
}

export interface Pulled {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A host: its settings, its list, and its signer. */
export class PullerHost implements AsyncDisposable {
  readonly answers: Answers = { list: listOf(1) };
  readonly asked: string[] = [];
  readonly #dir: string;
  readonly #server: MtlsServer;

  private constructor(dir: string, answers: Answers, asked: string[], server: MtlsServer) {
    this.#dir = dir;
    this.answers = answers;
    this.asked = asked;
    this.#server = server;
  }

  static async create(): Promise<PullerHost> {
    const dir = await Deno.makeTempDir({ prefix: "krl-host-" });
    const answers: Answers = { list: listOf(1) };
    const asked: string[] = [];
    const { server } = await startServer((request) => {
      const { pathname, search, searchParams } = new URL(request.url);
      asked.push(pathname + search);
      const { list, body, signature, status = 200, key = KEY } = answers;
      if (pathname === "/v1/krl.sig") return new Response(signature ?? list.armoredSignature(key));
      if (status === 200 && Number(searchParams.get("after")) === list.version) {
        return new Response(null, { status: 304 });
      }
      return new Response(body ?? list.bytes, { status });
    });
    await Deno.mkdir(`${dir}/conf`);
    await Deno.mkdir(`${dir}/state`);
    await Deno.writeTextFile(`${dir}/conf/ca.crt`, ca);
    await Deno.writeTextFile(`${dir}/conf/client.crt`, client.cert);
    await Deno.writeTextFile(`${dir}/conf/client.key`, client.key, { mode: 0o600 });
    const url = `https://127.0.0.1:${server.address.port}`;
    await Deno.writeTextFile(`${dir}/conf/signer.env`, `GATEWAY_KRL_SIGNER=${url}\n`);
    await Deno.writeTextFile(`${dir}/conf/krl_signers`, `${allowedSignersLine(KEY, [KRL_NAMESPACE])}\n`);
    return new PullerHost(dir, answers, asked, server);
  }

  get state(): string {
    return `${this.#dir}/state`;
  }

  get list(): string {
    return `${this.state}/revoked_keys`;
  }

  get signers(): string {
    return `${this.#dir}/conf/krl_signers`;
  }

  /** The bytes of the installed list; `undefined` if there is no file. */
  installed(): Uint8Array | undefined {
    try {
      return Deno.readFileSync(this.list);
    } catch {
      return undefined;
    }
  }

  get conf(): string {
    return `${this.#dir}/conf`;
  }

  get script(): string {
    return SCRIPT;
  }

  get url(): string {
    return `https://127.0.0.1:${this.#server.address.port}`;
  }

  /** The command line of a puller that ends after one request, with a launcher prefix. */
  command(before: readonly string[] = [], env: Record<string, string> = {}): Deno.Command {
    const [program = "", ...args] = [...before, SCRIPT, "--once"];
    const settings = {
      GATEWAY_KRL_SIGNER: this.url,
      GATEWAY_KRL_CONF: this.conf,
      GATEWAY_KRL_DIR: this.state,
    };
    return new Deno.Command(program, {
      args,
      env: { ...settings, ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }

  async pull(before?: readonly string[], env?: Record<string, string>): Promise<Pulled> {
    const { code, stdout, stderr } = await this.command(before, env).output();
    const decoder = new TextDecoder();
    return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close();
    await Deno.remove(this.#dir, { recursive: true });
  }
}
