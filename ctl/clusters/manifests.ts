import type { ClusterPolicy } from "@gateway/shared/policy";
import { type RbacRule, toRbacRules } from "./rbac.ts";
import { neededRights, type Right } from "./rights.ts";

export interface AccountName {
  readonly namespace: string;
  readonly name: string;
}

/** An object as `kubectl apply` takes it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [key: string]: unknown;
}

const RBAC = "rbac.authorization.k8s.io";

/** The objects that a cluster needs for a config: accounts, and the rights of the minter and of the others. */
export function enrolManifests(
  name: string,
  cluster: ClusterPolicy,
  minter: AccountName,
): readonly Manifest[] {
  const accounts = boundAccounts(cluster);
  const lease = cluster.token_binding?.namespace;
  const rights = Map.groupBy(neededRights(cluster), ({ namespace }) => namespace);
  const namespaces = [...rights.keys()].flatMap((namespace) => namespace === undefined ? [] : [namespace])
    .sort();
  return [
    ...(lease === undefined ? [] : [{ apiVersion: "v1", kind: "Namespace", metadata: { name: lease } }]),
    ...[minter, ...accounts].map(({ namespace, name }) => ({
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name, namespace },
      // Tokens are made one by one; a pod that runs as the account must not get one automatically.
      automountServiceAccountToken: false,
    })),
    ...mintingRights(cluster).flatMap(([namespace, rights]) =>
      grant({ name: `gateway-${name}-mint`, namespace, rules: toRbacRules(rights), accounts: [minter] })
    ),
    ...[undefined, ...namespaces].flatMap((namespace) => {
      const rules = toRbacRules(rights.get(namespace) ?? []);
      return rules.length === 0 ? [] : grant({ name: `gateway-${name}-act`, namespace, rules, accounts });
    }),
  ];
}

/** The ServiceAccounts of a cluster's bindings, each once. */
export function boundAccounts({ sa_bindings }: ClusterPolicy): readonly AccountName[] {
  const accounts = new Map(
    sa_bindings.map(({ namespace, service_account: name }) => [`${namespace}/${name}`, { namespace, name }]),
  );
  return [...accounts.values()];
}

/** The rights that the minter of a cluster needs, by namespace. */
export function mintingRights(cluster: ClusterPolicy): readonly (readonly [string, readonly Right[]])[] {
  const lease = cluster.token_binding?.namespace;
  const byNamespace = Map.groupBy(boundAccounts(cluster), ({ namespace }) => namespace);
  return [...byNamespace].map(([namespace, accounts]) => {
    const right = { namespace, group: "" };
    return [namespace, [
      ...accounts.map(({ name }) => ({ ...right, resource: "serviceaccounts/token", verb: "create", name })),
      ...(namespace === lease ? ["create", "delete"] : []).map((verb) => ({
        ...right,
        resource: "secrets",
        verb,
      })),
    ]];
  });
}

function grant({ name, namespace, rules, accounts }: {
  readonly name: string;
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  readonly rules: readonly RbacRule[];
  readonly accounts: readonly AccountName[];
}): readonly Manifest[] {
  const metadata = { name, ...(namespace === undefined ? {} : { namespace }) };
  const kind = namespace === undefined ? "ClusterRole" : "Role";
  return [
    { apiVersion: `${RBAC}/v1`, kind, metadata, rules },
    {
      apiVersion: `${RBAC}/v1`,
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: RBAC, kind, name },
      subjects: accounts.map(({ namespace, name }) => ({ kind: "ServiceAccount", name, namespace })),
    },
  ];
}
