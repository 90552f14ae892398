import { isUnsafe, quoteText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { appendToList, removeFromList, setValue } from "@gateway/shared/config";
import { AppError, errorText } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import { compilePattern, type HostPolicy } from "@gateway/shared/policy";
import { changePolicy, requireNewest } from "./change_policy.ts";
import type { SignerPorts } from "../sign/ports.ts";
import type { SignerConfig } from "../config/config.ts";
import { answer, MAX_ADMIN_BODY_BYTES, requireAdmin } from "./admin.ts";

const patternBody: z.ZodType<{ readonly pattern: string }> = z.object({ pattern: z.string().min(1) });

/** What is done to a host's list of allow patterns. */
type AllowEdit = "add" | "remove";

/** `POST` and `DELETE /v1/policy/hosts/{host}/allow`: one allow pattern more or less, in force and in the file. */
export async function handleAllowEdit(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
  { host, edit }: { readonly host: string; readonly edit: AllowEdit },
): Promise<Response> {
  const command = `policy-allow-${edit}`;
  await requireAdmin(ports, peer, { command, outcome: "policy-denied" });
  const { policySource } = ports;
  if (policySource.from === "file" && ports.instances.isShared) {
    const err =
      "several signers share the state, and each has a config file of its own: edit and reload them all, or have the " +
      'hosts in the database: policy_source "database"';
    await ports.gate.bestEffort({ caller: peer.caller, command, outcome: "policy-failed", err });
    throw new AppError("conflict", err);
  }
  const { pattern } = await readJsonBody(request, { maxBytes: MAX_ADMIN_BODY_BYTES, schema: patternBody });
  const entry = {
    caller: peer.caller,
    host: isUnsafe(host) ? "" : host,
    command,
    policy_rule: `allow:${pattern}`,
  };
  try {
    checkPattern(pattern);
    if (policySource.from === "database") {
      const base = requireNewest(policySource);
      const { hosts } = await policySource.parse(base.document);
      const document = edited(base.document, { host, policy: hostOf({ hosts }, host), pattern, edit });
      const change = `${edit} ${host} ${pattern}`;
      const made = await changePolicy(ports, { base, document, by: peer.caller, change, entry });
      return answer({ status: "ok", host, ...made });
    }
    const snapshot = await ports.state.apply(async () => {
      const text = await ports.configFile.read();
      // What the file says counts, not what is in force: it may have been edited since it was loaded.
      const policy = hostOf(await ports.configFile.parse(text), host);
      const changed = edited(text, { host, policy, pattern, edit });
      return {
        snapshot: await ports.configFile.compile(changed, ports.state.current),
        entry: { ...entry, outcome: "policy-changed" },
        async persist() {
          if (await ports.configFile.replace(text, changed)) return true;
          const err = "the file has changed meanwhile: the change is made on what it says now";
          await ports.gate.bestEffort({ ...entry, outcome: "policy-failed", err });
          return false;
        },
      };
    });
    return answer({ status: "ok", host, hosts: snapshot.policy.hosts.size });
  } catch (error) {
    const err = error instanceof AppError ? error.message : "the change failed";
    await ports.gate.bestEffort({ ...entry, outcome: "policy-failed", err });
    throw error;
  }
}

/** `GET /v1/policy/hosts`: the hosts as configured, internal fields included; by direct admins only. */
export async function handlePolicyRead(ports: SignerPorts, peer: Peer): Promise<Response> {
  await requireAdmin(ports, peer, { command: "policy-hosts-read", outcome: "policy-read-denied" });
  const { hosts } = ports.state.current.config;
  const count = Object.keys(hosts).length;
  await ports.gate.require({
    caller: peer.caller,
    command: `policy-hosts-read hosts=${count}`,
    outcome: "policy-read",
  });
  const krl = ports.krlReaders.byHost(ports.state.current.config.krl_callers, {
    version: ports.krl.current.version,
    now: ports.clock.now(),
  });
  return answer(
    Object.fromEntries(
      Object.entries(hosts).map(([name, host]) => [name, { ...describeHost(host), krl: krl.get(name) }]),
    ),
  );
}

function describeHost(host: HostPolicy): HostPolicy {
  return { principal: "", command_policy: {}, ...host };
}

function hostOf({ hosts }: Pick<SignerConfig, "hosts">, name: string): HostPolicy {
  const host = Object.hasOwn(hosts, name) ? hosts[name] : undefined;
  if (host === undefined) throw new AppError("not_found", `unknown host: ${quoteText(name)}`);
  return host;
}

function checkPattern(pattern: string): void {
  try {
    compilePattern(pattern);
  } catch (cause) {
    throw new AppError("invalid_request", `invalid regex: ${errorText(cause)}`, { cause });
  }
}

interface AllowChange {
  readonly host: string;
  readonly policy: HostPolicy;
  readonly pattern: string;
  readonly edit: AllowEdit;
}

/** The config's text after the change; comments, order and whatever else is in it stay. */
function edited(text: string, { host, policy, pattern, edit }: AllowChange): string {
  const { allow = [], mode = "" } = policy.command_policy ?? {};
  const path = ["hosts", host, "command_policy"];
  const isPresent = allow.includes(pattern);
  if (edit === "remove") {
    if (!isPresent) throw new AppError("conflict", `no change: pattern not present on ${quoteText(host)}`);
    return removeFromList(text, [...path, "allow"], pattern);
  }
  if (isPresent) throw new AppError("conflict", `no change: pattern already present on ${quoteText(host)}`);
  const longer = appendToList(text, [...path, "allow"], pattern);
  // The first rule turns the host into an allowlist; on a denylist it fails to build.
  return mode === "" || mode === "off" ? setValue(longer, [...path, "mode"], "allowlist") : longer;
}
