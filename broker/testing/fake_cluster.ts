import { stringifyJson } from "@gateway/shared/json";
import type { ApiOutcome, ApiRequest } from "@gateway/shared/kubernetes";
import type { ClusterAction } from "@gateway/shared/policy";
import type { ApiConnection } from "../kubernetes/api_call.ts";

export const ACTIONS = {
  getPod: {
    verb: "get",
    resource: { resource: "pods", group: "", version: "v1", kind: "Pod", namespaced: true },
    namespace: "prod",
    name: "web-1",
    text: "get pods prod/web-1",
  },
  listPods: {
    verb: "list",
    resource: { resource: "pods", group: "", version: "v1", kind: "Pod", namespaced: true },
    namespace: "",
    name: "",
    text: "list pods -/-",
  },
  logs: {
    verb: "logs",
    resource: { resource: "pods", group: "", version: "v1", kind: "Pod", namespaced: true },
    namespace: "prod",
    name: "web-1",
    text: "logs pods prod/web-1",
  },
  applyDeployment: {
    verb: "apply",
    resource: { resource: "deployments", group: "apps", version: "v1", kind: "Deployment", namespaced: true },
    namespace: "prod",
    name: "api",
    text: "apply deployments.apps prod/api",
  },
  deleteNode: {
    verb: "delete",
    resource: { resource: "nodes", group: "", version: "v1", kind: "Node", namespaced: false },
    namespace: "",
    name: "node-1",
    text: "delete nodes -/node-1",
  },
  getSecret: {
    verb: "get",
    resource: { resource: "secrets", group: "", version: "v1", kind: "Secret", namespaced: true },
    namespace: "prod",
    name: "db",
    text: "get secrets prod/db",
  },
  listSecrets: {
    verb: "list",
    resource: { resource: "secrets", group: "", version: "v1", kind: "Secret", namespaced: true },
    namespace: "prod",
    name: "",
    text: "list secrets prod/-",
  },
} as const satisfies Record<string, ClusterAction>;

/** An API server with scripted answers that records its requests. */
export class FakeConnection implements ApiConnection {
  readonly requests: ApiRequest[] = [];
  answer: (request: ApiRequest) => ApiOutcome | Promise<ApiOutcome> = () => answered({ kind: "Pod" });

  async request(request: ApiRequest): Promise<ApiOutcome> {
    this.requests.push(request);
    return await this.answer(request);
  }
}

/** An answer with a JSON or text body. */
export function answered(
  body: unknown,
  { status = 200, headers = {} }: {
    readonly status?: number;
    readonly headers?: Readonly<Record<string, string>>;
  } = {},
): ApiOutcome {
  return { kind: "answered", status, headers, text: typeof body === "string" ? body : stringifyJson(body) };
}
