import type { PolicyRule } from "../cluster.ts";
import { isObject } from "./field_set.ts";
import { resource } from "./resources.ts";
import type { Store, StoredObject } from "./store.ts";

export interface User {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** A requested action on a resource. */
export interface Attributes {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  /** Empty for requests to the whole cluster. */
  readonly namespace: string;
  /** Empty if the request is not for one object. */
  readonly name: string;
}

export interface Authorization {
  readonly allowed: boolean;
  readonly reason?: string;
}

/** A rule about non-resource paths. */
export interface PathRule {
  readonly verbs: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

const MASTERS = "system:masters";

/** The rights of every authenticated user: review their own access, and read the server's version. */
export const COMMON_RULES: readonly PolicyRule[] = [
  {
    verbs: ["create"],
    apiGroups: ["authorization.k8s.io"],
    resources: ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
  },
  { verbs: ["create"], apiGroups: ["authentication.k8s.io"], resources: ["selfsubjectreviews"] },
];

const EVERYBODY: PathRule = {
  verbs: ["get"],
  nonResourceURLs: ["/healthz", "/livez", "/readyz", "/version", "/version/"],
};

/** Non-resource paths that authenticated users may read. */
export const COMMON_PATHS: readonly PathRule[] = [
  {
    verbs: ["get"],
    nonResourceURLs: [
      "/.well-known/openid-configuration",
      "/.well-known/openid-configuration/",
      "/openid/v1/jwks",
      "/openid/v1/jwks/",
    ],
  },
  EVERYBODY,
  {
    verbs: ["get"],
    nonResourceURLs: [
      "/api",
      "/api/*",
      "/apis",
      "/apis/*",
      "/healthz",
      "/livez",
      "/openapi",
      "/openapi/*",
      "/readyz",
      "/version",
      "/version/",
    ],
  },
];

/** A rule and its source. */
export interface GivenRule {
  readonly rule: PolicyRule;
  readonly reason: string;
}

export function authorize(store: Store, user: User, attributes: Attributes): Authorization {
  if (user.groups.includes(MASTERS)) return { allowed: true };
  const given = rulesOf(store, user, attributes.namespace).find(({ rule }) => covers(rule, attributes));
  return given === undefined ? { allowed: false } : { allowed: true, reason: given.reason };
}

/** Whether a user may read a non-resource path. */
export function mayRead(user: User, path: string): boolean {
  if (user.groups.includes(MASTERS)) return true;
  const rules = user.groups.includes("system:authenticated") ? COMMON_PATHS : [EVERYBODY];
  return rules.some(({ nonResourceURLs }) =>
    nonResourceURLs.some((url) => url === path || (url.endsWith("*") && path.startsWith(url.slice(0, -1))))
  );
}

/** All rules of a user in a namespace, or in the whole cluster if the namespace is empty. */
export function rulesOf(store: Store, user: User, namespace: string): readonly GivenRule[] {
  const common = user.groups.includes("system:authenticated")
    ? COMMON_RULES.map((rule) => ({
      rule,
      reason:
        'RBAC: allowed by ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group ' +
        '"system:authenticated"',
    }))
    : [];
  const everywhere = store.list(resource("clusterrolebindings"), "");
  const here = namespace === "" ? [] : store.list(resource("rolebindings"), namespace);
  return [...common, ...[...everywhere, ...here].flatMap((binding) => givenBy(store, binding, user))];
}

function covers(
  { verbs, apiGroups, resources, resourceNames = [] }: PolicyRule,
  wanted: Attributes,
): boolean {
  const [, subresource] = wanted.resource.split("/");
  return has(verbs, wanted.verb) && has(apiGroups, wanted.group) &&
    (has(resources, wanted.resource) ||
      (subresource !== undefined && resources.includes(`*/${subresource}`))) &&
    (resourceNames.length === 0 || resourceNames.includes(wanted.name));
}

function has(list: readonly string[], value: string): boolean {
  return list.includes("*") || list.includes(value);
}

function givenBy(store: Store, binding: StoredObject, user: User): readonly GivenRule[] {
  const { roleRef, subjects } = binding;
  if (!isObject(roleRef) || !Array.isArray(subjects)) return [];
  const subject = subjects.find((entry) => isObject(entry) && isSubject(entry, user));
  if (subject === undefined) return [];
  const { namespace = "" } = binding.metadata;
  const role = roleRef.kind === "ClusterRole"
    ? store.get(resource("clusterroles"), "", String(roleRef.name))
    : store.get(resource("roles"), namespace, String(roleRef.name));
  if (!Array.isArray(role?.rules)) return [];
  const bindingName = `${binding.metadata.name}${namespace === "" ? "" : `/${namespace}`}`;
  const subjectName = `${subject.name}${subject.namespace === undefined ? "" : `/${subject.namespace}`}`;
  const reason =
    `RBAC: allowed by ${binding.kind} "${bindingName}" of ${roleRef.kind} "${roleRef.name}" to ` +
    `${subject.kind} "${subjectName}"`;
  return role.rules.map((rule) => ({ rule, reason }));
}

function isSubject({ kind, namespace, name }: Readonly<Record<string, unknown>>, user: User): boolean {
  switch (kind) {
    case "ServiceAccount":
      return user.username === `system:serviceaccount:${namespace}:${name}`;
    case "User":
      return user.username === name;
    case "Group":
      return user.groups.includes(String(name));
    default:
      return false;
  }
}
