import { isObject } from "./field_set.ts";
import { authorize, COMMON_PATHS, rulesOf, type User } from "./rbac.ts";
import { badRequest } from "./status.ts";
import type { Store } from "./store.ts";
import { timestamp } from "./tokens.ts";

/** The answer to a self review, by group and plural. */
export const REVIEWS: Readonly<
  Record<string, (store: Store, user: User, body: Readonly<Record<string, unknown>>, now: number) => unknown>
> = {
  "authentication.k8s.io/selfsubjectreviews": (_store, user, _body, now) => ({
    kind: "SelfSubjectReview",
    apiVersion: "authentication.k8s.io/v1",
    metadata: { creationTimestamp: timestamp(Math.floor(now / 1000)) },
    status: { userInfo: user },
  }),
  "authorization.k8s.io/selfsubjectaccessreviews": (store, user, body) => {
    const spec = isObject(body.spec) ? body.spec : {};
    const wanted = isObject(spec.resourceAttributes) ? spec.resourceAttributes : {};
    const text = (key: string) => String(wanted[key] ?? "");
    const subresource = text("subresource");
    return {
      kind: "SelfSubjectAccessReview",
      apiVersion: "authorization.k8s.io/v1",
      metadata: {},
      spec,
      status: authorize(store, user, {
        verb: text("verb"),
        group: text("group"),
        resource: `${text("resource")}${subresource === "" ? "" : `/${subresource}`}`,
        namespace: text("namespace"),
        name: text("name"),
      }),
    };
  },
  "authorization.k8s.io/selfsubjectrulesreviews": (store, user, body) => {
    const { namespace = "" } = isObject(body.spec) ? body.spec : {};
    if (namespace === "") throw badRequest("no namespace on request");
    return {
      kind: "SelfSubjectRulesReview",
      apiVersion: "authorization.k8s.io/v1",
      metadata: {},
      spec: {},
      status: {
        resourceRules: rulesOf(store, user, String(namespace)).map(({ rule }) => ({
          verbs: rule.verbs,
          apiGroups: rule.apiGroups,
          resources: rule.resources,
          ...(rule.resourceNames === undefined ? {} : { resourceNames: rule.resourceNames }),
        })),
        nonResourceRules: COMMON_PATHS,
        incomplete: false,
      },
    };
  },
};
