/** A kind of object that the server stores or only reviews. */
export interface Resource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** The fields except `apiVersion`, `kind` and `metadata`. Absent for custom resources: any field. */
  readonly fields?: readonly string[];
}

const OBJECT = ["spec", "status"];

const TABLE: Readonly<Record<string, readonly [plural: string, kind: string, fields?: readonly string[]][]>> =
  {
    "/v1": [
      ["pods", "Pod"],
      ["services", "Service"],
      ["configmaps", "ConfigMap", ["data", "binaryData", "immutable"]],
      ["secrets", "Secret", ["data", "stringData", "type", "immutable"]],
      ["serviceaccounts", "ServiceAccount", ["secrets", "imagePullSecrets", "automountServiceAccountToken"]],
      ["events", "Event", ["involvedObject", "reason", "message", "type", "count", "source"]],
      ["persistentvolumeclaims", "PersistentVolumeClaim"],
    ],
    "apps/v1": [
      ["deployments", "Deployment"],
      ["statefulsets", "StatefulSet"],
      ["daemonsets", "DaemonSet"],
      ["replicasets", "ReplicaSet"],
    ],
    "batch/v1": [["jobs", "Job"], ["cronjobs", "CronJob"]],
    "networking.k8s.io/v1": [["ingresses", "Ingress"]],
    "rbac.authorization.k8s.io/v1": [
      ["roles", "Role", ["rules"]],
      ["rolebindings", "RoleBinding", ["roleRef", "subjects"]],
    ],
  };

const CLUSTER_SCOPED: typeof TABLE = {
  "/v1": [["namespaces", "Namespace"], ["nodes", "Node"], ["persistentvolumes", "PersistentVolume"]],
  "rbac.authorization.k8s.io/v1": [
    ["clusterroles", "ClusterRole", ["rules"]],
    ["clusterrolebindings", "ClusterRoleBinding", ["roleRef", "subjects"]],
  ],
  "apiextensions.k8s.io/v1": [["customresourcedefinitions", "CustomResourceDefinition"]],
};

/** All objects that the server creates by default. */
export const RESOURCES: readonly Resource[] = [
  ...resourcesOf(TABLE, true),
  ...resourcesOf(CLUSTER_SCOPED, false),
];

/** A resource that always exists on the server. */
export function resource(plural: string): Resource {
  const found = RESOURCES.find((entry) => entry.plural === plural);
  if (found === undefined) throw new TypeError(`no resource ${plural}`);
  return found;
}

/** For example `v1` or `apps/v1`. */
export function apiVersionOf({ group, version }: Pick<Resource, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}

function resourcesOf(table: typeof TABLE, namespaced: boolean): readonly Resource[] {
  return Object.entries(table).flatMap(([groupVersion, rows]) => {
    const [group = "", version = ""] = groupVersion.split("/");
    return rows.map(([plural, kind, fields = OBJECT]) => ({
      group,
      version,
      plural,
      kind,
      namespaced,
      fields,
    }));
  });
}
