/**
 * Clusters as an operator writes them. Types and schemas only; what they mean is decided in the modules beside this
 * one.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { clusterPolicy } from "@gateway/shared/policy";
 *
 * const cluster = clusterPolicy.parse({
 *   api_server: "https://10.0.0.5:6443",
 *   ca_cert: "clusters/prod.ca.crt",
 *   token_file: "clusters/prod.token",
 *   sa_bindings: [{ namespace: "gateway", service_account: "reader" }],
 *   rules: [{ verbs: ["get", "list"], resources: ["pods"], namespaces: ["web"], effect: "allow" }],
 * });
 * assert.equal(cluster.rules[0]?.effect, "allow");
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import type { ExtraResource } from "../wire/cluster.ts";

/** What a rule does with the actions that it matches. */
export const CLUSTER_EFFECTS = ["allow", "deny", "require_approval"] as const;
/** One of {@linkcode CLUSTER_EFFECTS}. */
export type ClusterEffect = (typeof CLUSTER_EFFECTS)[number];

/** One rule about actions; a list that is absent, empty or has a `*` matches everything. */
export interface ClusterRule {
  /** Of get, list, logs, apply, delete. */
  readonly verbs?: readonly string[];
  /** Lower-case plural names, without their group. */
  readonly resources?: readonly string[];
  /** `-` is what has no namespace, and a list of all namespaces. */
  readonly namespaces?: readonly string[];
  /** Names of objects; `-` is a list. */
  readonly names?: readonly string[];
  /** `deny` beats the others, and what no rule matches is denied. */
  readonly effect: ClusterEffect;
  /** Values of Secrets may be shown. */
  readonly reveal?: boolean;
  /** An apply may take named fields over from other managers without approval. */
  readonly force?: boolean;
}

/** Which ServiceAccount the tokens are for. */
export interface ServiceAccountBinding {
  /** Groups of end users; absent or empty: everybody. */
  readonly groups?: readonly string[];
  readonly namespace: string;
  readonly service_account: string;
}

/** How tokens can be taken back before they end. */
interface TokenBinding {
  /** The namespace of all ServiceAccounts, with the Secrets that tokens are bound to, and nothing else. */
  readonly namespace: string;
}

/** One cluster. */
export interface ClusterPolicy {
  /** `https://host:port`. */
  readonly api_server: string;
  /** PEM file with the cluster's CAs. */
  readonly ca_cert: string;
  /** File with the token that tokens are made with. */
  readonly token_file: string;
  /** The life of tokens; absent or 0: 600. */
  readonly token_ttl_seconds?: number;
  readonly groups?: readonly string[];
  /** CNs of the callers that may use the cluster; absent or empty: any. */
  readonly allowed_callers?: readonly string[];
  /** The first that fits the end user counts. */
  readonly sa_bindings: readonly ServiceAccountBinding[];
  readonly rules: readonly ClusterRule[];
  /** Kinds of objects beside the built-in ones. */
  readonly extra_resources?: readonly ExtraResource[];
  /** Absent: tokens can't be taken back, and end by themselves. */
  readonly token_binding?: TokenBinding;
}

/** The part of a config that is about Kubernetes. */
export interface KubernetesConfig {
  readonly clusters: Readonly<Record<string, ClusterPolicy>>;
}

/** The shortest life of a token that an API server gives, in seconds. */
export const MIN_TOKEN_TTL_SECONDS = 600;
/** The longest life of a token, in seconds. */
export const MAX_TOKEN_TTL_SECONDS = 900;

const strings = z.array(z.string());
const name = z.string().min(1);

const clusterRule: z.ZodType<ClusterRule> = z.strictObject({
  verbs: strings.exactOptional().describe("of get, list, logs, apply, delete; empty, or with a *, means all"),
  resources: strings.exactOptional().describe(
    "lower-case plural names without their group, built-in or of extra_resources; empty, or with a *, means all",
  ),
  namespaces: strings.exactOptional().describe(
    "namespaces; - stands for objects without one and for a list of all namespaces; empty, or with a *, means all, " +
      "- included",
  ),
  names: strings.exactOptional().describe(
    "names of objects; - stands for a list; empty, or with a *, means all",
  ),
  effect: z.enum(CLUSTER_EFFECTS).describe(
    "deny beats the others; require_approval allows once a human has approved; what no rule matches is denied",
  ),
  reveal: z.boolean().exactOptional().describe("values of Secrets are shown; otherwise they are masked"),
  force: z.boolean().exactOptional().describe(
    "with effect allow: an apply may take the fields named in force_fields over from other managers without approval; " +
      "otherwise an approver decides",
  ),
});

const saBinding: z.ZodType<ServiceAccountBinding> = z.strictObject({
  groups: strings.exactOptional().describe(
    "groups of end users that it is for; empty means everybody, a request without an end user's groups included",
  ),
  namespace: name.describe("namespace of the ServiceAccount"),
  service_account: name.describe("name of the ServiceAccount whose rights the action is done with"),
});

const extraResource: z.ZodType<ExtraResource> = z.strictObject({
  resource: name.describe("lower-case plural name, not that of a built-in one"),
  group: z.string().exactOptional().describe("API group; empty is the core group"),
  version: name.describe("API version, as v1"),
  kind: name.describe("kind, as Deployment"),
  namespaced: z.boolean().exactOptional().describe("the objects are in namespaces"),
});

/** Checks a {@linkcode ClusterPolicy}; unknown keys are refused. */
export const clusterPolicy: z.ZodType<ClusterPolicy> = z.strictObject({
  api_server: name.describe("URL of the API server, https://host:port; told to brokers"),
  ca_cert: name.describe(
    "PEM file with the CAs that the API server's certificate comes from; told to brokers",
  ),
  token_file: name.describe(
    "file with the token of the account that may create tokens for the ServiceAccounts of sa_bindings; read for each",
  ),
  token_ttl_seconds: z.int().min(0).exactOptional().describe(
    `life of the tokens, ${MIN_TOKEN_TTL_SECONDS} to ${MAX_TOKEN_TTL_SECONDS} seconds; 0 means ${MIN_TOKEN_TTL_SECONDS}`,
  ),
  groups: strings.exactOptional().describe("groups for access control"),
  allowed_callers: strings.exactOptional().describe(
    "caller CNs that may use the cluster; empty means any caller",
  ),
  sa_bindings: z.array(saBinding).describe(
    "which ServiceAccount an action is done as: the first entry that has a group of the end user",
  ),
  rules: z.array(clusterRule).describe("what may be done; at least one rule has to allow something"),
  extra_resources: z.array(extraResource).exactOptional().describe("resources beside the built-in ones"),
  token_binding: z.strictObject({
    namespace: name.describe(
      "the namespace of all sa_bindings, where the Secrets are kept that tokens are bound to; keep nothing else there",
    ),
  }).exactOptional().describe(
    "ties tokens to a Secret for each caller and end user, which a freeze deletes: the API server then refuses the " +
      "tokens within 10 s; the account of token_file needs create and delete on secrets there",
  ),
});

/** Checks a {@linkcode KubernetesConfig}; unknown keys are refused. */
export const kubernetesConfig: z.ZodType<KubernetesConfig> = z.strictObject({
  clusters: z.record(z.string(), clusterPolicy).default({}).describe("clusters by logical name"),
});
