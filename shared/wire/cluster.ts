/**
 * `GET /v1/clusters`: what a broker may know of the clusters it may use.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { clustersResponse } from "@gateway/shared/wire";
 *
 * const clusters = clustersResponse.parse({ prod: { api_server: "https://10.0.0.5:6443", ca_cert_pem: "..." } });
 * assert.equal(clusters["prod"]?.api_server, "https://10.0.0.5:6443");
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** A kind of object that a cluster has beside the built-in ones. */
export interface ExtraResource {
  /** Lower-case plural name. */
  readonly resource: string;
  /** API group; absent or `""` is the core group. */
  readonly group?: string | undefined;
  /** `v1`. */
  readonly version: string;
  readonly kind: string;
  /** Absent is false: the objects are the whole cluster's. */
  readonly namespaced?: boolean | undefined;
}

/** One cluster as the broker sees it. */
export interface ClusterInfo {
  /** `https://host:port`, without a slash at its end. */
  readonly api_server: string;
  /** The CAs that the API server's certificate comes from, PEM. */
  readonly ca_cert_pem: string;
  /** Groups that the cluster is in. */
  readonly groups?: readonly string[] | undefined;
  /** Kinds of objects beside the built-in ones. */
  readonly extra_resources?: readonly ExtraResource[] | undefined;
  /** What the rules allow, in words; only with `?policy=true`. */
  readonly policy?: readonly string[] | undefined;
}

/** Whether `GET /v1/clusters` also wants what the rules allow. */
export function wantsClusterRules(request: Request): boolean {
  return new URL(request.url).searchParams.get("policy") === "true";
}

/** The response of `GET /v1/clusters`: logical name to cluster. */
export type ClustersResponse = Readonly<Record<string, ClusterInfo>>;

/** Decodes a {@linkcode ClustersResponse}. */
export const clustersResponse: z.ZodType<ClustersResponse> = z.record(
  z.string(),
  z.object({
    api_server: z.string(),
    ca_cert_pem: z.string(),
    groups: z.array(z.string()).optional(),
    extra_resources: z.array(z.object({
      resource: z.string(),
      group: z.string().optional(),
      version: z.string(),
      kind: z.string(),
      namespaced: z.boolean().optional(),
    })).optional(),
    policy: z.array(z.string()).optional(),
  }),
);
