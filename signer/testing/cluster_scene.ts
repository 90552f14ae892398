import { sampleCluster } from "@gateway/shared/testing";
import type { ClusterPolicy } from "@gateway/shared/policy";
import type { SignerConfig } from "../config/config.ts";
import type { ApiAnswer, ClusterApi } from "@gateway/shared/kubernetes";
import { type MemorySignerOptions, startSigner } from "./memory_signer.ts";

/** A token whose id is `id-1`. */
export const TOKEN = `e30.${
  new TextEncoder().encode('{"jti":"id-1"}').toBase64({ alphabet: "base64url", omitPadding: true })
}.c2ln`;

export const EXPIRY = "2026-01-02T03:14:05Z";

export const MINTED = answered(201, { status: { token: TOKEN, expirationTimestamp: EXPIRY } });

/** One request to an API server. */
export interface Asked {
  readonly cluster: string;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  /** Absent if the token comes from `token_file`. */
  readonly token: string | undefined;
}

export function answered(status: number, body: unknown): ApiAnswer {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { kind: "answered", status, headers: {}, text };
}

/** A signer with the cluster `prod`, and the requests to its API server. */
export async function startClusterSigner(
  { cluster = {}, config = {}, reply = () => MINTED, ...options }:
    & Omit<MemorySignerOptions, "clusterApi">
    & {
      readonly cluster?: Partial<ClusterPolicy>;
      readonly config?: Partial<Record<keyof SignerConfig, unknown>>;
      readonly reply?: (asked: Asked) => ApiAnswer | Promise<ApiAnswer>;
    } = {},
) {
  const asked: Asked[] = [];
  const clusterApi: ClusterApi["request"] = async ({ cluster }, { method, path, body, token }) => {
    const text = body === undefined ? undefined : new TextDecoder().decode(body.bytes);
    const one: Asked = {
      cluster: cluster.name,
      method,
      path,
      token,
      body: text === undefined || body?.type !== "application/json" ? text : JSON.parse(text),
    };
    asked.push(one);
    return await reply(one);
  };
  const kubernetes = { clusters: { prod: sampleCluster({ groups: ["web"], ...cluster }) } };
  const signer = await startSigner({ kubernetes, ...config }, { ...options, clusterApi });
  /** The sign request of an action. Its command is the canonical form, as far as that has no group. */
  const act = (action: string, changes: Record<string, unknown> = {}, cn?: string) =>
    signer.sign({ ...actionFields(action), ...changes }, cn);
  return { ...signer, asked, act };
}

/** The fields of `get deployments.apps web/api`. */
export function actionFields(action: string): Record<string, unknown> {
  const [verb = "", full = "", path = ""] = action.split(" ");
  const [namespace, name] = path.split("/");
  const [resource, ...group] = full.split(".");
  return {
    target_type: "k8s",
    host: "prod",
    command: action,
    public_key: "",
    k8s_verb: verb,
    k8s_resource: resource,
    k8s_group: group.join("."),
    k8s_namespace: namespace === "-" ? "" : namespace,
    k8s_name: name === "-" ? "" : name,
  };
}
