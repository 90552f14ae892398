/**
 * A policy with one host, and an intent for it, for tests that vary one key at a time.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { decideSample } from "./sample_policy.ts";
 *
 * assert.equal(decideSample({ allow_pty: true }, { pty: true }).kind, "allowed");
 * ```
 *
 * @module
 */
import assert from "node:assert/strict";
import { type CompiledPolicy, compilePolicy } from "../policy/compile.ts";
import type { CommandPolicy, HostPolicy, PolicyConfig } from "../policy/model.ts";
import {
  type AllowedSsh,
  decideSsh,
  type DeniedSsh,
  type SshDecision,
  type SshIntent,
} from "../policy/ssh.ts";

/** A valid host key line. */
export const SAMPLE_HOST_KEY =
  "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";

/** An allowlist of `uptime` and systemctl commands, with approval for restarts. */
export const SAMPLE_RULES: CommandPolicy = {
  mode: "allowlist",
  allow: ["^uptime$", "^systemctl"],
  require_approval: ["restart"],
};

/** A host without special permissions, with the given keys changed. */
export function sampleHost(keys: Partial<HostPolicy> = {}): HostPolicy {
  return {
    addr: "10.0.0.1:22",
    user: "deploy",
    host_key: SAMPLE_HOST_KEY,
    principal: "host:web01",
    // Tests with several such hosts are not about principals.
    shared_principal: true,
    ...keys,
  };
}

/** A config with the one host `web01`, with the given keys changed. */
export function sampleConfig(host: Partial<HostPolicy> = {}, keys: Partial<PolicyConfig> = {}): PolicyConfig {
  return {
    hosts: { web01: sampleHost(host) },
    callers: {},
    command_policies: {},
    group_command_policies: {},
    max_ttl_seconds: 0,
    ...keys,
  };
}

/** Compiles a config. Fails if the config is invalid. */
export function compileSample(config: PolicyConfig): CompiledPolicy {
  const compiled = compilePolicy(config);
  assert(compiled.kind === "ok", compiled.kind === "invalid" ? compiled.problems.join("\n") : "");
  return compiled.policy;
}

/** A one-shot `uptime` on `web01`, with the given fields changed. */
export function sampleIntent(fields: Partial<SshIntent> = {}): SshIntent {
  return {
    caller: "broker-1",
    endUser: "",
    endUserGroups: null,
    host: "web01",
    role: "target",
    purpose: "oneshot",
    sessionMode: "",
    command: "uptime",
    ttlSeconds: 0,
    sudo: false,
    sudoUser: "",
    pty: false,
    fileTransfer: false,
    contentSha256: "",
    ...fields,
  };
}

/** Decides {@linkcode sampleIntent} on {@linkcode sampleHost}, with the given fields changed in each. */
export function decideSample(host: Partial<HostPolicy>, fields: Partial<SshIntent> = {}): SshDecision {
  return decideSsh(compileSample(sampleConfig(host)), sampleIntent(fields));
}

/** {@linkcode decideSample}. Fails if the decision is not to allow. */
export function allowSample(host: Partial<HostPolicy>, fields: Partial<SshIntent> = {}): AllowedSsh {
  const decision = decideSample(host, fields);
  assert(decision.kind === "allowed", decision.kind === "denied" ? decision.reason : "");
  return decision;
}

/** {@linkcode decideSample}. Fails if the decision is not to deny. */
export function denySample(host: Partial<HostPolicy>, fields: Partial<SshIntent> = {}): DeniedSsh {
  const decision = decideSample(host, fields);
  assert(decision.kind === "denied");
  return decision;
}

/** Decides a command under one inline command policy. */
export function decideUnder(policy: CommandPolicy, command: string): SshDecision {
  return decideSample({ command_policy: policy }, { command });
}
