import { AppError } from "@gateway/shared/errors";
import { hasUnseen, quoteText } from "@gateway/shared/text";
import { HOST_IDENTITY_SUFFIX, isHostIdentity } from "@gateway/shared/wire";
import type { LeafUsage } from "../init/x509.ts";

/** Who can have an identity, and what its certificate is good for. */
export const IDENTITY_KINDS = {
  agent: { usage: "client", what: "asks a broker over HTTP" },
  broker: { usage: "both", what: "asks the control plane or the signer, and is asked by agents" },
  approver: { usage: "client", what: "decides on approvals" },
  operator: { usage: "client", what: "administers the signer" },
  signer: { usage: "server", what: "is asked by brokers and the control plane" },
  "control-plane": { usage: "both", what: "asks the signer, and is asked by brokers and approvers" },
} as const satisfies Record<string, { readonly usage: LeafUsage; readonly what: string }>;

/** One of {@linkcode IDENTITY_KINDS}. */
export type IdentityKind = keyof typeof IDENTITY_KINDS;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$/;

/** @throws {AppError} `invalid_request` for another word */
export function parseKind(text: string): IdentityKind {
  if (Object.hasOwn(IDENTITY_KINDS, text)) return text as IdentityKind;
  const kinds = Object.keys(IDENTITY_KINDS).join(", ");
  throw new AppError("invalid_request", `Cannot add a ${quoteText(text)}: expected one of ${kinds}`);
}

/** @throws {AppError} `invalid_request` for what is no good name of a file, a caller and a word of a shell */
export function checkName(name: string): string {
  if (NAME.test(name) && !isHostIdentity(name) && !hasUnseen(name)) return name;
  throw new AppError(
    "invalid_request",
    `Cannot use the name ${quoteText(name)}: expected letters, digits, dots, dashes, underscores and @, ` +
      `and not ${HOST_IDENTITY_SUFFIX} at the end, which hosts have`,
  );
}

/** What a certificate is good for beside being a client; servers are reached by names. */
export function isServer(kind: IdentityKind): boolean {
  return IDENTITY_KINDS[kind].usage !== "client";
}
