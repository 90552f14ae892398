import { AppError } from "@gateway/shared/errors";
import { revokeKeyIdsRequest, revokeResponse, revokeSerialsRequest } from "@gateway/shared/wire";
import { asOneWord, once } from "../kit/arguments.ts";
import type { AddCommand } from "../kit/context.ts";
import { parseSerial } from "../kit/freeze_subject.ts";
import { addRemoteOptions, askSigner, REMOTE_HELP } from "../kit/remote.ts";
import { waitForHosts } from "./wait_for_hosts.ts";

interface RevokeFlags {
  readonly serial?: string;
  readonly keyId?: string;
  readonly reason?: string;
  readonly wait?: boolean;
}

const EXAMPLES = `
Examples:
  broker-ctl revoke --serial 9223372036854775808 --reason INC-42 --wait
  broker-ctl revoke --key-id "agent=agent-7 host=web01 role=target t=1700000000"

Hosts that fetch the signer's revocation list (krl_callers) refuse the certificate from then on, also one that the
signer does not know; it can't be taken back. A key id stands for every certificate that has it: those that a caller
got for a host in the same second share one. To stop whoever has the certificate, freeze the caller too.
--wait waits up to 30 s until every host has the list, and says which are behind (exit code 1).
${REMOTE_HELP}`;

/** `revoke`: one certificate, where it is believed. */
export const addRevoke: AddCommand = (program, context) => {
  addRemoteOptions(program.command("revoke"))
    .description("Have hosts refuse a certificate before it ends.")
    .option("--serial <number>", "the serial of a certificate", once)
    .option("--key-id <text>", "the key id of certificates, as sshd logs it", once)
    .option("--reason <text>", "why, such as a ticket's number; blanks become _", once)
    .option("--wait", "say on which hosts it holds")
    .addHelpText("after", EXAMPLES)
    .action((flags: RevokeFlags, command) =>
      context.run(command, ["config", "clientConfig"], async () => {
        const { path, request, subject } = readRequest(flags);
        const { body, data } = await askSigner(command, context, {
          what: "revoke",
          method: "POST",
          path,
          body: request,
          schema: revokeResponse,
        });
        const failed = data.persisted === false;
        const known = data.revoked === 0
          ? "; none that is new and still valid to this signer"
          : `; certificates revoked: ${data.revoked}`;
        const result = {
          json: body,
          lines: [
            `listed ${subject} in revocation list ${data.krl_version}${known}`,
            ...(failed ? ["not stored: in force now, but a restart of the signer undoes it"] : []),
          ],
          failed,
        };
        return flags.wait === true
          ? await waitForHosts(command, context, { result, version: data.krl_version })
          : result;
      })
    );
};

function readRequest(
  { serial, keyId, reason: text = "" }: RevokeFlags,
): { readonly path: string; readonly request: unknown; readonly subject: string } {
  const reason = asOneWord(text);
  if ((serial === undefined) === (keyId === undefined)) {
    throw new AppError("invalid_request", "Name one: --serial or --key-id");
  }
  if (serial !== undefined) {
    const { data: request } = revokeSerialsRequest.safeParse({ serials: [parseSerial(serial)], reason });
    if (request === undefined) throw badReason();
    return { path: "/v1/revocations/serials", request, subject: `serial=${request.serials[0]}` };
  }
  const { data: request } = revokeKeyIdsRequest.safeParse({ key_ids: [keyId], reason });
  if (request !== undefined) {
    return { path: "/v1/revocations/key-ids", request, subject: `key_id=${JSON.stringify(keyId)}` };
  }
  if (revokeKeyIdsRequest.safeParse({ key_ids: [keyId] }).success) throw badReason();
  throw new AppError(
    "invalid_request",
    "Cannot revoke: --key-id is empty, too long or has control characters",
  );
}

function badReason(): AppError {
  return new AppError("invalid_request", "Cannot revoke: --reason must have no control characters");
}
