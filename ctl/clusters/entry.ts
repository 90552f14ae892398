import { AppError } from "@gateway/shared/errors";
import {
  CLUSTER_EFFECTS,
  type ClusterEffect,
  type ClusterPolicy,
  type ClusterRule,
  type ServiceAccountBinding,
} from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { ExtraResource } from "@gateway/shared/wire";
import type { SignerConfig } from "@gateway/signer/config";
import { HintedError } from "../kit/output.ts";

/** The flags that describe a cluster; what is absent is not spoken of. */
export interface ClusterFlags {
  readonly apiServer?: string;
  readonly caCert?: string;
  readonly tokenFile?: string;
  readonly tokenTtl?: number;
  readonly group?: readonly string[];
  readonly caller?: readonly string[];
  readonly serviceAccount?: readonly string[];
  readonly rule?: readonly string[];
  readonly resource?: readonly string[];
  readonly clusterResource?: readonly string[];
  readonly tokenBinding?: string;
}

/** What a config says of a cluster, as far as flags spoke of it. */
export type ClusterEntry = { readonly [K in keyof ClusterPolicy]?: ClusterPolicy[K] };

/**
 * Reads the flags, in the order of the keys of the documentation. One empty value clears a list.
 *
 * @throws {AppError} `invalid_request` for what can't be read; whether it makes sense is the signer's to say
 */
export function readClusterEntry(flags: ClusterFlags): ClusterEntry {
  const resources = [
    ...readAll(flags.resource, (text) => readResource(text, true)) ?? [],
    ...readAll(flags.clusterResource, (text) => readResource(text, false)) ?? [],
  ];
  const extras = flags.resource === undefined && flags.clusterResource === undefined ? undefined : resources;
  const entry: Record<keyof ClusterPolicy, ClusterPolicy[keyof ClusterPolicy] | undefined> = {
    api_server: flags.apiServer,
    ca_cert: flags.caCert,
    token_file: flags.tokenFile,
    token_ttl_seconds: flags.tokenTtl,
    groups: readAll(flags.group, (text) => text),
    allowed_callers: readAll(flags.caller, (text) => text),
    sa_bindings: readAll(flags.serviceAccount, readBinding),
    rules: readAll(flags.rule, readRule),
    extra_resources: extras,
    token_binding: flags.tokenBinding === undefined ? undefined : { namespace: flags.tokenBinding },
  };
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined));
}

/** Undefined where the flag is absent; an empty list where its one value is empty. */
function readAll<T>(
  values: readonly string[] | undefined,
  read: (text: string) => T,
): readonly T[] | undefined {
  return values?.length === 1 && values[0] === "" ? [] : values?.map(read);
}

/**
 * Reads `allow get,list pods prod/web-1`: effect, verbs, resources, namespaces, names.
 *
 * @throws {AppError} `invalid_request` for anything else
 */
export function readRule(text: string): ClusterRule {
  const [effect = "", verbs = "", resources = "", place = "*", ...rest] = text.trim().split(/\s+/);
  const [namespaces = "", names = "*", ...more] = place.split("/");
  // An empty list would mean everything.
  const isWhole = [verbs, resources, namespaces, names].every((part) =>
    part.split(",").every((one) => one !== "")
  );
  if (!isEffect(effect) || !isWhole || rest.length > 0 || more.length > 0) {
    throw new AppError(
      "invalid_request",
      `Cannot read rule ${quoteText(text)}: expected "<${CLUSTER_EFFECTS.join("|")}> <verbs> <resources> ` +
        `[<namespaces>[/<names>]]", each with commas or *`,
    );
  }
  return {
    verbs: split(verbs),
    resources: split(resources),
    namespaces: split(namespaces),
    names: split(names),
    effect,
  };
}

/** `gateway/agent`, or `gateway/dba=dba,ops` for the end users of these groups. */
function readBinding(text: string): ServiceAccountBinding {
  const [, namespace, service_account, groups] = /^([^/=]+)\/([^/=]+)(?:=(.+))?$/.exec(text) ?? [];
  if (namespace === undefined || service_account === undefined) {
    throw new AppError(
      "invalid_request",
      `Cannot read ServiceAccount ${quoteText(text)}: expected <namespace>/<name> or ` +
        "<namespace>/<name>=<groups of end users>",
    );
  }
  return { ...(groups === undefined ? {} : { groups: split(groups) }), namespace, service_account };
}

/** `widgets.example.com/v1/Widget`. */
function readResource(text: string, namespaced: boolean): ExtraResource {
  const [, resource, group = "", version, kind] = /^([^./]+)(?:\.([^/]+))?\/([^/]+)\/([^/]+)$/.exec(text) ??
    [];
  if (resource === undefined || version === undefined || kind === undefined) {
    throw new AppError(
      "invalid_request",
      `Cannot read resource ${quoteText(text)}: expected <plural>.<group>/<version>/<Kind>`,
    );
  }
  return { resource, group, version, kind, namespaced };
}

function split(text: string): readonly string[] {
  return text.split(",").map((part) => part.trim());
}

function isEffect(text: string): text is ClusterEffect {
  return (CLUSTER_EFFECTS as readonly string[]).includes(text);
}

/** @throws {AppError} `not_found` where the config has no such cluster */
export function clusterOf({ kubernetes }: SignerConfig, name: string): ClusterPolicy {
  const cluster = kubernetes?.clusters[name];
  if (cluster !== undefined) return cluster;
  const error = new AppError("not_found", `Cannot find cluster ${quoteText(name)}: unknown cluster`);
  throw new HintedError(error, "broker-ctl cluster list shows the clusters");
}
