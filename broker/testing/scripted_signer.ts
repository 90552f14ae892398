import { systemClock } from "@gateway/shared/clock";
import { ApprovalWaits } from "../authority/approval_wait.ts";
import { RemoteAuthority } from "../authority/remote.ts";
import type { JsonClientRequest } from "@gateway/shared/http";
import type { SignerClient, SignerReply } from "../authority/authority.ts";

/** A signer that gives one reply to everything, and keeps what it was asked. */
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

/** An authority over this client that waits for no approval, or as long as this. */
export function connect(client: SignerClient, seconds = 0): RemoteAuthority {
  return new RemoteAuthority(client, new ApprovalWaits({ client, clock: systemClock, seconds }));
}

/** An authority over a signer that gives this reply to everything. */
export function replying(status: number, body: unknown, text = JSON.stringify(body) ?? "") {
  const signer = new ScriptedSigner(() => ({ status, body, text }));
  return { signer, authority: connect(signer) };
}
