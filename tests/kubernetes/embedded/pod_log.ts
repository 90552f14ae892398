import { type ContainerLogs, cutLog, logOptions } from "../kubelet.ts";
import { isObject } from "./field_set.ts";
import { badRequest, invalid } from "./status.ts";
import type { StoredObject } from "./store.ts";

/** The numeric options of a log, each with its minimum. */
const LIMITS = { tailLines: 0, sinceSeconds: 1, limitBytes: 1 } as const;

/** The log of a container of a pod; undefined for a pod without a node. */
export function readPodLog(
  pod: StoredObject,
  query: URLSearchParams,
  logs: ContainerLogs,
): Uint8Array<ArrayBuffer> | undefined {
  const { namespace = "", name } = pod.metadata;
  for (const [option, least] of Object.entries(LIMITS)) {
    const text = query.get(option);
    if (text === null) continue;
    if (!/^-?\d+$/.test(text)) throw badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
    if (Number(text) >= least) continue;
    const bound = least === 0 ? "must be greater than or equal to 0" : "must be greater than 0";
    throw invalid({ group: "", kind: "PodLogOptions", name }, {
      reason: "FieldValueInvalid",
      message: `Invalid value: ${text}: ${bound}`,
      field: option,
    });
  }
  const spec = isObject(pod.spec) ? pod.spec : {};
  const containers = Array.isArray(spec.containers) ? spec.containers.map((entry) => String(entry.name)) : [];
  const container = query.get("container") ?? (containers.length === 1 ? containers[0] : undefined);
  if (container === undefined) {
    throw badRequest(
      `a container name must be specified for pod ${name}, choose one of: [${containers.join(" ")}]`,
    );
  }
  if (!containers.includes(container)) {
    throw badRequest(`container ${container} is not valid for pod ${name}`);
  }
  if (typeof spec.nodeName !== "string") return undefined;
  return cutLog(logs.get(`${namespace}/${name}/${container}`) ?? "", logOptions(query));
}
