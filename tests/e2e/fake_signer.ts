import { readJsonBody, startMtlsServer } from "@gateway/shared/http";
import { stringifyJson } from "@gateway/shared/json";
import { stopOnDisconnect } from "@gateway/shared/policy";
import { type HostsResponse, type SignRequest, signRequest } from "@gateway/shared/wire";
import type { CertificatePair } from "../../ctl/identities/x509.ts";
import type { TestCa } from "../ssh_target/certificates.ts";

/** The serial of every certificate: the largest one, which exceeds the safe range of `number`. */
export const SERIAL = 18446744073709551615n;

export interface FakeSignerOptions {
  readonly tls: CertificatePair;
  readonly clientCa: string;
  readonly ca: TestCa;
  readonly hosts: HostsResponse;
}

/** A signer that allows every command except `forbidden`, over real mutual TLS. */
export class FakeSigner implements AsyncDisposable {
  readonly requests: SignRequest[] = [];
  /** Delays each answer to `GET /v1/hosts`. */
  delay: Promise<void> = Promise.resolve();
  hosts: HostsResponse;
  answer: (() => Response) | undefined;
  /**
   * The approver of commands: none, the caller's own human, or a human at a control plane, which the fake
   * simulates.
   */
  approval: "none" | "caller" | "control plane" = "none";
  /** The decision of the human at the control plane. */
  decision = Promise.withResolvers<"approved" | "denied">();
  readonly polls: string[] = [];
  /** The number of polls that wait for the decision. */
  holding = 0;
  readonly #parked = new Map<string, SignRequest>();
  readonly #options: FakeSignerOptions;
  #server: Awaited<ReturnType<typeof startMtlsServer>> | undefined;

  private constructor(options: FakeSignerOptions) {
    this.#options = options;
    this.hosts = options.hosts;
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
      return this.answer?.() ?? json(this.hosts);
    }
    const { pathname, search } = new URL(request.url);
    if (pathname === "/v1/clusters") return json({});
    if (pathname.startsWith("/v1/sign/result/")) {
      this.polls.push(pathname + search);
      return this.answer?.() ?? await this.#poll(request);
    }
    const body = await readJsonBody(request, { maxBytes: 65536, schema: signRequest });
    this.requests.push(body);
    return this.answer?.() ?? await this.#sign(body);
  }

  /** Holds the poll like a control plane, then returns the decisions. */
  async #poll(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const parked = this.#parked.get(url.pathname.split("/").at(-1) ?? "");
    if (parked === undefined) return problem(404, "not_found", "unknown request");
    const held = Number(url.searchParams.get("wait")) * 1000;
    const timer = Promise.withResolvers<"pending">();
    const timeout = setTimeout(() => timer.resolve("pending"), held);
    const gone = () => timer.resolve("pending");
    request.signal.addEventListener("abort", gone);
    this.holding += 1;
    const decision = await Promise.race([this.decision.promise, timer.promise]);
    this.holding -= 1;
    clearTimeout(timeout);
    request.signal.removeEventListener("abort", gone);
    switch (decision) {
      case "pending":
        return json({ status: "pending" }, 202);
      case "denied":
        return problem(403, "denied", "approval denied");
      default:
        this.#parked.clear();
        return await this.#issue(parked);
    }
  }

  async #sign(request: SignRequest): Promise<Response> {
    if (request.command === "forbidden") return problem(403, "denied", "command denied by policy");
    if (request.dry_run) return json({ decision: decisionOf(request) });
    if (this.approval === "caller" && !request.approved) {
      const rule = { require_approval: true, matched_rule: "require_approval:.*" };
      return json({ decision: { ...decisionOf(request), ...rule } });
    }
    if (this.approval === "control plane") {
      const id = crypto.randomUUID().replaceAll("-", "");
      this.#parked.set(id, request);
      return json({ approval_id: id, status: "pending" }, 202);
    }
    return await this.#issue(request);
  }

  async #issue(request: SignRequest): Promise<Response> {
    const stops = this.hosts[request.host]?.stop_on_disconnect === true && !request.pty;
    const forceCommand = stops ? stopOnDisconnect("", request.command) : request.command;
    const certificate = await this.#options.ca.certify(request.public_key.trim(), {
      serial: SERIAL,
      // The commands of a session are requested later.
      criticalOptions: request.purpose === "session" ? {} : { "force-command": forceCommand },
    });
    return json({ certificate, serial: SERIAL, decision: decisionOf(request) });
  }
}

function decisionOf({ command }: SignRequest) {
  return { allowed: true, matched_rule: "allow:.*", force_command: command, ttl_seconds: 60 };
}

function problem(status: number, code: string, detail: string): Response {
  return json({ type: "about:blank", status, detail, code }, status);
}

function json(value: unknown, status = 200): Response {
  return new Response(stringifyJson(value), { status, headers: { "content-type": "application/json" } });
}
