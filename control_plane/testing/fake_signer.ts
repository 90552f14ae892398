import { AppError } from "@gateway/shared/errors";
import type { JsonClientRequest, JsonClientResponse } from "@gateway/shared/http";
import { parseJson, stringifyJson } from "@gateway/shared/json";
import type { SignRequest } from "@gateway/shared/wire";

/** The largest serial, which exceeds the safe range of `number`. */
export const SERIAL = 18446744073709551615n;

/** The signer's answer to one request. */
export interface FakeReply {
  readonly status?: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A signer with scripted answers that records its requests. */
export class FakeSigner {
  readonly requests: JsonClientRequest[] = [];
  /** By default allows every request. An error simulates an unreachable signer. */
  reply: (request: JsonClientRequest) => FakeReply | Promise<FakeReply> = (request) => allow(request);

  /** The bodies of the sign requests so far. */
  get signed(): readonly SignRequest[] {
    return this.requests.filter(({ path }) => path === "/v1/sign").map(({ body }) => body as SignRequest);
  }

  async request(request: JsonClientRequest): Promise<JsonClientResponse> {
    // Requests and replies are serialized as on the wire.
    const { body: sent } = request;
    this.requests.push(sent === undefined ? request : { ...request, body: parseJson(stringifyJson(sent)) });
    if (request.signal?.aborted) throw new AppError("canceled", "Contacting the signer was canceled");
    const { status = 200, body = {}, headers = {} } = await this.reply(request);
    const text = stringifyJson(body);
    return { status, headers, text, body: parseJson(text) };
  }
}

/** The answer of a signer that allows everything. */
export function allow({ body }: JsonClientRequest): FakeReply {
  const request = body as SignRequest | undefined;
  const decision = { allowed: true, matched_rule: "allow:.*", force_command: request?.command };
  if (request?.dry_run) return { body: { decision } };
  return { body: { certificate: "ssh-ed25519-cert-v01@openssh.com AAAA\n", serial: SERIAL, decision } };
}

/** The answer of a signer that requires approval for every command. */
export function gate(request: JsonClientRequest): FakeReply {
  const sign = request.body as SignRequest | undefined;
  if (sign?.approved || sign?.dry_run) return allow(request);
  return {
    body: { decision: { allowed: true, require_approval: true, matched_rule: "require_approval:^rm" } },
  };
}

/** A rejection as the signer writes it. */
export function refusal(status: number, code: string, detail: string, headers = {}): FakeReply {
  return { status, body: { type: "about:blank", status, detail, code }, headers };
}
