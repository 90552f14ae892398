/**
 * One entry of `hosts` in the broker's config. In local mode it is the host and its policy; in remote mode the
 * signer has these, and the address only bounds what the process may connect to.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { brokerHost } from "./host_config.ts";
 *
 * assert.equal(brokerHost.parse({ addr: "10.0.0.5:22" }).addr, "10.0.0.5:22");
 * assert.equal(brokerHost.safeParse({ addr: "10.0.0.5:22", max_ttl_seconds: 60 }).success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { type CommandPolicy, commandPolicy } from "@gateway/shared/policy";

/** A host in the broker's own config. */
export interface BrokerHost {
  readonly addr: string;
  readonly user?: string;
  readonly host_key?: string;
  readonly jump?: string;
  readonly principal?: string;
  readonly source_address?: string;
  readonly allow_as_bastion?: boolean;
  readonly allow_sudo?: boolean;
  readonly allowed_sudo_users?: readonly string[];
  readonly allow_pty?: boolean;
  readonly allow_file_transfer?: boolean;
  readonly stop_on_disconnect?: boolean;
  readonly shared_principal?: boolean;
  readonly groups?: readonly string[];
  readonly command_policy?: CommandPolicy;
}

const text = z.string();
const flag = z.boolean();
const strings = z.array(z.string());

/** Checks a {@linkcode BrokerHost}; unknown keys are refused. */
export const brokerHost: z.ZodType<BrokerHost> = z.strictObject({
  addr: text.default("").describe("host:port to connect to; if empty, the broker cannot connect"),
  user: text.exactOptional().describe("the account on the host; local mode needs it"),
  host_key: text.exactOptional().describe(
    "the pinned host key, an authorized_keys line; if empty, the broker cannot connect",
  ),
  jump: text.exactOptional().describe("logical name of the bastion in front of the host"),
  principal: text.exactOptional().describe(
    "local mode: principal of the certificate, by convention host:<name>",
  ),
  source_address: text.exactOptional().describe(
    "local mode: address or CIDR the certificate may be used from, instead of the global one",
  ),
  allow_as_bastion: flag.exactOptional().describe(
    "local mode: may be used as a hop to another host; implied where another host's jump names it",
  ),
  allow_sudo: flag.exactOptional().describe("local mode: commands may be elevated with sudo -n"),
  allowed_sudo_users: strings.exactOptional().describe(
    "local mode: accounts sudo may change to; root is implied by allow_sudo",
  ),
  allow_pty: flag.exactOptional().describe("local mode: a pseudo-terminal may be requested"),
  allow_file_transfer: flag.exactOptional().describe("local mode: files may be read and written"),
  stop_on_disconnect: flag.exactOptional().describe(
    "local mode: one-shot commands, and those of exec sessions, end with their connection; see hosts.<name>.stop_on_disconnect of signer.json",
  ),
  shared_principal: flag.exactOptional().describe(
    "local mode: the principal may be another host's too, which says the same: a certificate for one then opens the other",
  ),
  groups: strings.exactOptional().describe("groups for access control, group policies and CA keys"),
  command_policy: commandPolicy.exactOptional().describe("local mode: rules for this host alone"),
});
