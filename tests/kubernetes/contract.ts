import type { Api, ApiAnswer, ApiRequest } from "./api.ts";
import type { Cluster } from "./cluster.ts";

export type Asker = "admin" | "agent" | "minter" | "stranger" | "nobody";

/** One request of a contract and the expected status. */
export interface Step extends ApiRequest {
  readonly name: string;
  readonly as: Asker;
  readonly status: number;
  /** The text that the answer must contain. */
  readonly says?: string;
  /** Compared fields in addition to the status, because only the real server sets some fields. */
  readonly compare?: readonly (readonly string[])[] | "status";
}

export interface ContractScene {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly askers: Readonly<Record<Asker, Api>>;
  readonly group: string;
  /** Names that differ between runs, each with its placeholder. */
  readonly names: Readonly<Record<string, string>>;
}

/** An answer without the values that differ between runs. */
export interface ComparableAnswer {
  readonly step: string;
  readonly status: number;
  readonly answer: unknown;
}

/** Creates the accounts of a contract: an agent with a few rights, and the minter of its tokens. */
export async function setContractScene(cluster: Cluster, steps: readonly Step[]): Promise<ContractScene> {
  const namespace = await cluster.createNamespace("shop");
  const agent = await cluster.createAccount(namespace, "agent");
  await cluster.grantRole(agent, [
    { apiGroups: [""], resources: ["pods", "pods/log", "configmaps"], verbs: ["get", "list"] },
    { apiGroups: [""], resources: ["secrets"], verbs: ["get"], resourceNames: ["one"] },
    { apiGroups: ["apps"], resources: ["*"], verbs: ["*"] },
  ]);
  const minter = await cluster.createMinter(namespace, [agent], { leases: true });
  await cluster.runPod({ namespace, name: "web", containers: { app: "one\ntwo\nthree\n" } });
  await cluster.runPod({ namespace, name: "pair", containers: { app: "one\n", side: "beside\n" } });
  const isCustom = steps.some(({ path }) => path.includes("<group>"));
  const group = isCustom ? await cluster.createCustomResource("widgets", "Widget") : "none.example";
  return {
    cluster,
    namespace,
    group,
    askers: {
      admin: cluster.admin,
      agent: await cluster.connectAs(agent),
      minter: await cluster.connectAs(minter),
      stranger: cluster.connect({ token: "x.y.z" }),
      nobody: cluster.connect(),
    },
    names: { [minter.name]: "MINTER", [namespace]: "NAMESPACE", [group]: "GROUP" },
  };
}

/** Runs steps in order. Fills in `<ns>`, `<group>` and values of earlier answers. */
export async function play(
  scene: ContractScene,
  steps: readonly Step[],
): Promise<readonly ComparableAnswer[]> {
  const played: ComparableAnswer[] = [];
  const values: Record<string, string> = { ns: scene.namespace, group: scene.group };
  const fill = (text: string) => text.replace(/<([a-zA-Z]+)>/g, (whole, key) => values[key] ?? whole);
  for (const step of steps) {
    const { name, as, status, says, compare, path, body, ...request } = step;
    const filled = body === undefined
      ? {}
      : { body: fill(typeof body === "string" ? body : JSON.stringify(body)) };
    const answer = await scene.askers[as].ask({ ...request, path: fill(path), ...filled });
    if (answer.status !== status || (says !== undefined && !answer.text.includes(fill(says)))) {
      throw new Error(`${scene.cluster.kind}: ${name}: ${answer.status} ${answer.text}`);
    }
    Object.assign(values, remembered(answer));
    played.push({ step: name, status, answer: comparable(scene, answer, compare) });
  }
  return played;
}

/** The values for later steps: `<uid>`, `<token>` and `<continue>` of the last answer that contained each. */
function remembered({ text }: ApiAnswer): Record<string, string> {
  const [, uid] = /"uid":"([^"]+)"/.exec(text) ?? [];
  const [, next] = /"continue":"([^"]+)"/.exec(text) ?? [];
  return { ...(uid === undefined ? {} : { uid }), ...(next === undefined ? {} : { continue: next }) };
}

function comparable({ names }: ContractScene, { text }: ApiAnswer, compare: Step["compare"]): unknown {
  if (compare === "status") return undefined;
  let named = text;
  for (const [name, placeholder] of Object.entries(names)) named = named.replaceAll(name, placeholder);
  if (!named.startsWith("{")) return named;
  const object: unknown = JSON.parse(named, (key, value) => settled(key, value));
  if (compare === undefined) return object;
  return compare.map((path) =>
    path.reduce<unknown>((value, key) => (value as Record<string, unknown>)?.[key], object)
  );
}

/** A value in the form that is the same in every run. */
function settled(key: string, value: unknown): unknown {
  switch (key) {
    case "uid":
    case "resourceVersion":
    case "continue":
    case "token":
      return key;
    case "creationTimestamp":
    case "deletionTimestamp":
    case "expirationTimestamp":
    case "time":
      return "time";
    case "authentication.kubernetes.io/credential-id":
      return "id";
    case "reason":
      // Names of roles and bindings are random.
      return typeof value === "string" ? value.replaceAll(/-[0-9a-f]{8}\b/g, "-x") : value;
    case "nonResourceRules":
      // The real server has no fixed order for the rules of several ClusterRoles.
      return (value as readonly unknown[]).map((rule) => JSON.stringify(rule)).toSorted();
    case ".":
      // The schema decides whether a map is a separate field.
    case "generation":
      return undefined;
    case "managedFields": {
      // The maps that an update owns as a whole follow from schemas that the embedded server lacks. Managers
      // are sorted by time in seconds.
      const entries = value as readonly { readonly operation: string; readonly manager: string }[];
      const applied = entries.filter(({ operation }) => operation === "Apply")
        .toSorted((a, b) => a.manager < b.manager ? -1 : 1);
      return applied.length === 0 ? undefined : applied;
    }
    default:
      return value;
  }
}
