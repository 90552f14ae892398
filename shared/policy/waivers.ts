/**
 * Learned approval waivers: which command of whom one spares the second human, and which one it replaces.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { waiverPattern } from "./waivers.ts";
 *
 * assert.equal(waiverPattern("systemctl restart nginx.service"), "^systemctl restart nginx\\.service$");
 * ```
 *
 * @module
 */
import { LONGEST_GRANT_TTL_SECONDS } from "../wire/grant.ts";
import { type Grant, type GrantSet, isActive, type LiveGrants } from "./grants.ts";
import { canonicalSudoUser } from "./elevation.ts";

/** The command that would need approval, and who wants to run it how. */
export interface GatedCommand {
  readonly host: string;
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  readonly sudo: boolean;
  /** As it came; empty is root. */
  readonly sudoUser: string;
  /** As it was asked for, without its sudo prefix. */
  readonly command: string;
  /** It moves a file, or applies a manifest: what it does is not in the command alone. */
  readonly fileTransfer: boolean;
  /** SHA-256 of what is written or applied; empty: not said, or nothing is written. */
  readonly contentSha256: string;
}

/** What a waiver is bound to; two of the same scope are one. */
export type WaiverScope = Pick<
  Grant,
  "host" | "caller" | "endUser" | "sudo" | "sudoUser" | "allow" | "waiveApproval" | "contentSha256"
>;

/** The scope of the waiver that is learned from a command. */
export function waiverScope(gated: GatedCommand): WaiverScope {
  return {
    host: gated.host,
    caller: gated.caller,
    endUser: gated.endUser,
    sudo: gated.sudo,
    sudoUser: canonicalSudoUser(gated.sudo, gated.sudoUser),
    allow: [],
    waiveApproval: [waiverPattern(gated.command)],
    contentSha256: contentOf(gated) ?? "",
  };
}

/** Why no waiver can be learned from a command; `undefined` when one can. */
export function unlearnable(gated: Pick<GatedCommand, "fileTransfer" | "contentSha256">): string | undefined {
  return contentOf(gated) === undefined
    ? "a file transfer or an apply without the digest of its content"
    : undefined;
}

/**
 * The content that a waiver is bound to, beside the command, which says the path alone: empty for what is no transfer,
 * `undefined` where it is not known. Nothing may be spared the question then.
 */
function contentOf(
  { fileTransfer, contentSha256 }: Pick<GatedCommand, "fileTransfer" | "contentSha256">,
): string | undefined {
  if (!fileTransfer) return "";
  return contentSha256 === "" ? undefined : contentSha256;
}

/** The pattern that is found in this one command and no other. */
export function waiverPattern(command: string): string {
  return `^${command.toWellFormed().replace(/[\\.+*?()|[\]{}^$]/g, "\\$&")}$`;
}

/** Whether an active waiver spares the command its approval. Everything is exact, an empty end user too. */
export function isWaived({ grants, now }: LiveGrants, gated: GatedCommand): boolean {
  const sudoUser = canonicalSudoUser(gated.sudo, gated.sudoUser);
  const content = contentOf(gated);
  return (grants.byHost.get(gated.host) ?? []).some(({ grant, waives }) =>
    waives.length > 0 && isActive(grant, now) && grant.caller === gated.caller &&
    grant.endUser === gated.endUser && grant.sudo === gated.sudo && grant.sudoUser === sudoUser &&
    grant.contentSha256 === content &&
    waives.some((pattern) => pattern.test(gated.command))
  );
}

/** The waivers of exactly this scope, expired ones too: learning it again replaces them. */
export function findSameScope(set: GrantSet, scope: WaiverScope): readonly Grant[] {
  return (set.byHost.get(scope.host) ?? []).map(({ grant }) => grant).filter((grant) =>
    grant.allow.length === 0 && scope.allow.length === 0 && grant.caller === scope.caller &&
    grant.endUser === scope.endUser && grant.sudo === scope.sudo && grant.sudoUser === scope.sudoUser &&
    grant.contentSha256 === scope.contentSha256 &&
    grant.waiveApproval.length === scope.waiveApproval.length &&
    grant.waiveApproval.every((pattern, index) => pattern === scope.waiveApproval[index])
  );
}

/** The life of a learned waiver: at most the cap, where there is one (0: none). Never refused, only shortened. */
export function clampWaiverTtl(seconds: number, maxSeconds: number): number {
  return Math.min(
    seconds,
    maxSeconds > 0 ? maxSeconds : LONGEST_GRANT_TTL_SECONDS,
    LONGEST_GRANT_TTL_SECONDS,
  );
}
