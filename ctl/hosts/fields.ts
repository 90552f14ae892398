import { AppError } from "@gateway/shared/errors";
import { type Fields, splitNames, splitPatterns } from "../kit/entries.ts";

/** A flag without a value, or with `=true` or `=false`. */
type Switch = true | string;

/** The flags that describe a host; what is absent is not spoken of, empty clears the field. */
export interface HostFlags {
  readonly addr?: string;
  readonly user?: string;
  readonly principal?: string;
  readonly ttl?: number;
  readonly jump?: string;
  readonly sourceAddress?: string;
  readonly sudo?: Switch;
  readonly sudoUsers?: readonly string[];
  readonly pty?: Switch;
  readonly groups?: readonly string[];
  readonly fileTransfer?: Switch;
  readonly callers?: readonly string[];
  readonly bastion?: Switch;
  readonly policyMode?: string;
  readonly policyEnforcement?: string;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  readonly requireApproval?: readonly string[];
  readonly shellParse?: Switch;
}

/**
 * What the flags say, by the keys of the config.
 *
 * @throws {AppError} `invalid_request` for what can't be read; whether it makes sense is the signer's to say
 */
export function readHostFields(flags: HostFlags, hostKey: string | undefined): Fields {
  const policy = {
    mode: flags.policyMode,
    enforcement: flags.policyEnforcement,
    allow: splitPatterns(flags.allow, "--allow"),
    deny: splitPatterns(flags.deny, "--deny"),
    require_approval: splitPatterns(flags.requireApproval, "--require-approval"),
    shell_parse: readSwitch(flags.shellParse, "--shell-parse"),
  };
  return {
    addr: flags.addr,
    user: flags.user,
    host_key: hostKey,
    principal: flags.principal,
    max_ttl_seconds: flags.ttl,
    jump: flags.jump,
    source_address: flags.sourceAddress,
    allow_sudo: readSwitch(flags.sudo, "--sudo"),
    allowed_sudo_users: splitNames(flags.sudoUsers),
    allow_pty: readSwitch(flags.pty, "--pty"),
    allow_file_transfer: readSwitch(flags.fileTransfer, "--file-transfer"),
    allow_as_bastion: readSwitch(flags.bastion, "--bastion"),
    groups: splitNames(flags.groups),
    allowed_callers: splitNames(flags.callers),
    command_policy: Object.values(policy).every((value) => value === undefined) ? undefined : policy,
  };
}

/** @throws {AppError} `invalid_request` for anything but true and false */
function readSwitch(value: Switch | undefined, flag: string): boolean | undefined {
  if (value === undefined || value === true) return value;
  if (value === "true" || value === "false") return value === "true";
  throw new AppError("invalid_request", `Option '${flag}' is ${flag}, ${flag}=true or ${flag}=false`);
}
