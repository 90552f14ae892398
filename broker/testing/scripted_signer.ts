import { systemClock } from "@gateway/shared/clock";
import { ApprovalWaits } from "../authority/approval_wait.ts";
import { RemoteAuthority } from "../authority/remote.ts";
import type { JsonClientRequest } from "@gateway/shared/http";
import type { SignerClient, SignerReply } from "../authority/authority.ts";

/** A signer that returns the same reply to every request and records the requests. */
export class ScriptedSigner {
  readonly requests: JsonClientRequest[] = [];
  readonly #reply: (count: number) => SignerReply;

  /** @param reply gets the number of earlier requests */
  constructor(reply: (count: number) => SignerReply) {
    this.#reply = reply;
  }

  async request(options: JsonClientRequest): Promise<SignerReply> {
    this.requests.push(options);
    return await this.#reply(this.requests.length - 1);
  }
}

/** An authority over this client. It waits for approvals for the given time, by default not at all. */
export function connect(client: SignerClient, seconds = 0): RemoteAuthority {
  return new RemoteAuthority(client, new ApprovalWaits({ client, clock: systemClock, seconds }));
}

/** An authority over a signer that returns this reply to every request. */
export function replying(status: number, body: unknown, text = JSON.stringify(body) ?? "") {
  const signer = new ScriptedSigner(() => ({ status, body, text }));
  return { signer, authority: connect(signer) };
}
