import type { Clock, Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import type { UpstreamClient } from "@gateway/shared/http";
import type { AuditGate } from "@gateway/shared/audit";
import type { Authority } from "./authority.ts";
import type { SignerClient } from "./signer_client.ts";

/** What an authority is made of besides the config. */
export interface AuthorityPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
  /** The value of an environment variable; asked for what a CA key of local mode names. */
  readonly readEnv: (name: string) => string | undefined;
}

/** The signer, and who this broker is to it. */
interface SignerAccess {
  readonly client: SignerClient;
  readonly caller: string;
}

/** An authority to work with until it is closed. */
export interface OpenAuthority {
  readonly authority: Authority;
  /** For whoever asks the signer for more than hosts and certificates; nobody in local mode. */
  readonly signer: SignerAccess | undefined;
  /** For asking whether the other side answers, on a connection that nothing else waits for; nobody in local mode. */
  readonly upstream: UpstreamClient | undefined;
  close(): void;
}

/** Opens an authority that has been loaded, once there is somewhere to record what it does. */
export type OpenWith = (events: Pick<AuditGate, "require">) => OpenAuthority;
