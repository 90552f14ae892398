import { readJsonBody } from "@gateway/shared/http/body";
import { startMtlsServer } from "@gateway/shared/http/mtls_server";
import { stringifyJson } from "@gateway/shared/json";
import type { HostsResponse } from "@gateway/shared/wire/host";
import { type SignRequest, signRequest } from "@gateway/shared/wire/sign";
import type { CertificatePair } from "../../ctl/init/x509.ts";
import type { TestCa } from "../ssh_target/certificates.ts";

/** The serial of every certificate: the largest there is, which no `number` holds. */
export const SERIAL = 18446744073709551615n;

/** What the signer is to do. */
export interface FakeSignerOptions {
  readonly tls: CertificatePair;
  readonly clientCa: string;
  readonly ca: TestCa;
  readonly hosts: HostsResponse;
}

/** A signer that allows every command but `forbidden`, over real mutual TLS. */
export class FakeSigner implements AsyncDisposable {
  readonly requests: SignRequest[] = [];
  /** Waited for before each answer to `GET /v1/hosts`. */
  delay: Promise<void> = Promise.resolve();
  /** When set, every answer. */
  answer: (() => Response) | undefined;
  readonly #options: FakeSignerOptions;
  #server: Awaited<ReturnType<typeof startMtlsServer>> | undefined;

  private constructor(options: FakeSignerOptions) {
    this.#options = options;
  }

  static async start(options: FakeSignerOptions): Promise<FakeSigner> {
    const signer = new FakeSigner(options);
    signer.#server = await startMtlsServer({
      listen: "127.0.0.1:0",
      cert: options.tls.certPem,
      key: options.tls.keyPem,
      clientCa: options.clientCa,
      handler: (request) => signer.#handle(request),
      onError: () => {},
      timeouts: { drainMs: 0 },
    });
    return signer;
  }

  get url(): string {
    return `https://127.0.0.1:${this.#server?.address.port}`;
  }

  async close(): Promise<void> {
    await this.#server?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #handle(request: Request): Promise<Response> {
    if (new URL(request.url).pathname === "/v1/hosts") {
      await this.delay;
      return this.answer?.() ?? json(this.#options.hosts);
    }
    const body = await readJsonBody(request, { maxBytes: 65536, schema: signRequest });
    this.requests.push(body);
    return this.answer?.() ?? await this.#sign(body);
  }

  async #sign(request: SignRequest): Promise<Response> {
    if (request.command === "forbidden") {
      return json(
        { type: "about:blank", status: 403, detail: "command denied by policy", code: "denied" },
        403,
      );
    }
    const decision = {
      allowed: true,
      matched_rule: "allow:.*",
      force_command: request.command,
      ttl_seconds: 60,
    };
    if (request.dry_run) return json({ decision });
    const certificate = await this.#options.ca.certify(request.public_key.trim(), {
      serial: SERIAL,
      criticalOptions: { "force-command": request.command },
    });
    return json({ certificate, serial: SERIAL, decision });
  }
}

function json(value: unknown, status = 200): Response {
  return new Response(stringifyJson(value), { status, headers: { "content-type": "application/json" } });
}
