import type { Peer } from "@gateway/shared/http/mtls_server";
import type { AllowedSsh } from "@gateway/shared/policy/ssh";
import type { SignRequest } from "@gateway/shared/wire/sign";
import type { SignerPorts } from "../ports.ts";
import type { Snapshot } from "../snapshot.ts";

/** A decision that a certificate can be made of. */
export type Allowed = AllowedSsh;

/** What one request is judged by. */
export interface SignContext {
  readonly ports: SignerPorts;
  readonly snapshot: Snapshot;
  readonly peer: Peer;
  readonly request: SignRequest;
  /** The broker this is for: the peer, or whom a trusted forwarder names. */
  readonly caller: string;
}
