import { resolve } from "node:path";
import { setValue } from "@gateway/shared/config";
import { ifThere } from "@gateway/shared/files";
import type { ClusterPolicy, ClusterRule } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { type ClusterInfo, clustersResponse } from "@gateway/shared/wire";
import { type CommandGroup, named } from "../kit/command.ts";
import {
  addition,
  changing,
  type Collection,
  hasUser,
  listing,
  managing,
  type Removal,
} from "../kit/signer_change.ts";
import { byName, EMPTY_CELL, joinNames } from "../kit/table.ts";
import { CHECK } from "./check.ts";
import { ENROLL, ENTRY, readClusterEntry } from "./entry.ts";

const CLUSTERS: Collection<ClusterPolicy> = {
  what: "cluster",
  path: ["kubernetes", "clusters"],
  of: ({ kubernetes }) => kubernetes?.clusters ?? {},
};

const HEADING = ["NAME", "API SERVER", "GROUPS", "+EXTRA RESOURCES"];

const LIST = listing(CLUSTERS, {
  summary: "List the clusters.",
  help: `
Examples:
  broker-ctl cluster list --config /etc/gateway/signer.json
  broker-ctl cluster list --remote

Lists all clusters in the signer's config. With --remote it requests the list from the running signer, which returns
only the clusters that your certificate's CN may use. An operator's CN usually may use none.
`,
  format(clusters) {
    const rows = byName(clusters).map(([name, cluster]) => [
      ...describeCluster(name, cluster),
      joinNames(cluster.allowed_callers),
      joinNames(cluster.sa_bindings.map((binding) => `${binding.namespace}/${binding.service_account}`)),
      labelRules(cluster.rules),
    ]);
    const columns = [...HEADING, "+CALLERS", "+SERVICE ACCOUNTS", "RULES"];
    return [{ none: "(no clusters configured)", columns, rows }];
  },
  question: {
    ...{ method: "GET", path: "/v1/clusters", schema: clustersResponse },
    advice: { 403: "the certificate's caller is frozen, or unknown to the signer" },
  },
  formatRemote(clusters) {
    const rows = byName(clusters).map(([name, cluster]) => describeCluster(name, cluster));
    // The signer returns only the clusters of the caller, and an operator is not a caller.
    const fix = "To list all clusters: broker-ctl cluster list --config <the signer's config>";
    const none = "(no clusters that your certificate's CN may use)";
    return [{ none, columns: HEADING, rows }, ...rows.length === 0 ? [fix] : []];
  },
});

const ADD = changing({
  name: "add",
  summary: "Add or change a cluster in the signer's config.",
  takes: {
    "--name <name>": named("cluster name for agents and rules"),
    ...ENTRY,
    "--force": "change an existing cluster",
  },
  help: `
Examples:
  broker-ctl cluster add prod --api-server https://10.0.0.5:6443 --ca-cert clusters/prod.crt \\
      --token-file clusters/prod.token --service-account gateway/agent --token-binding gateway \\
      --rule 'allow get,list,logs pods web' --rule 'require_approval apply deployments web/shop'
  broker-ctl cluster edit prod --rule 'allow get,list pods web' --rule 'deny * secrets'

A rule has the form "<effect> <verbs> <resources> [<namespaces>[/<names>]]". Effects: allow, deny, require_approval.
Verbs: get, list, logs, apply, delete. Resources are plurals. Separate values with commas; * matches all. Without
namespaces a rule applies everywhere. The namespace - means objects without a namespace, and for a list of all
namespaces. --force changes only the given fields of an existing cluster: a list replaces the previous list, '' clears
it. Next: broker-ctl cluster enroll prod --print, then broker-ctl cluster check prod, then broker-ctl reload.
`,
  change(given, { workingFolder }) {
    const entry = readClusterEntry(given);
    const path = [...CLUSTERS.path, given.name];
    return addition(CLUSTERS, given, {
      edit(text, there) {
        const { sa_bindings = [], rules = [] } = entry;
        if (there === undefined) return setValue(text, path, { ...entry, sa_bindings, rules });
        const entries = Object.entries(entry);
        return entries.reduce((text, [key, value]) => setValue(text, [...path, key], value), text);
      },
      async describe(cluster, config) {
        const absent = (await Promise.all((["ca_cert", "token_file"] as const).map(async (key) =>
          await ifThere(Deno.stat(resolve(workingFolder, cluster[key]))) === undefined ? [key] : []
        ))).flat();
        return {
          json: { cluster, absent },
          facts: `api_server=${cluster.api_server}, rules=${labelRules(cluster.rules)}`,
          lines: [
            ...(hasUser(config, cluster)
              ? []
              : ["No caller in the config can use it: it has none of their groups (--group)."]),
            ...absent.map((key) =>
              `${key} ${
                quoteText(cluster[key])
              } does not exist yet; until then, the signer rejects this config`
            ),
          ],
        };
      },
    });
  },
});

const REMOVE: Removal = {
  argument: ["<name>", "cluster name"],
  help: `
Examples:
  broker-ctl cluster enroll prod --print | kubectl delete -f -
      delete the accounts and roles from the cluster first
  broker-ctl cluster remove prod --config /etc/gateway/signer.json
`,
};

/** `cluster`: the Kubernetes clusters of the signer's config. */
export const CLUSTER: CommandGroup = {
  name: "cluster",
  summary: "Manage Kubernetes clusters.",
  commands: [LIST, ...managing(CLUSTERS, ADD, REMOVE), ENROLL, CHECK],
};

function describeCluster(
  name: string,
  { api_server: server, groups, extra_resources: extras }: Pick<
    ClusterInfo,
    "api_server" | "groups" | "extra_resources"
  >,
): readonly string[] {
  const names = extras?.map(({ resource, group = "" }) => group === "" ? resource : `${resource}.${group}`);
  return [name, server, joinNames(groups), joinNames(names)];
}

/** The numbers of rules, such as `allow:3 approval:1 deny:1`. */
function labelRules(rules: readonly ClusterRule[]): string {
  const count = (effect: ClusterRule["effect"]) => rules.filter((rule) => rule.effect === effect).length;
  const counts = [
    ["allow", count("allow")],
    ["approval", count("require_approval")],
    ["deny", count("deny")],
  ] as const;
  return counts.flatMap(([name, count]) => count === 0 ? [] : [`${name}:${count}`]).join(" ") || EMPTY_CELL;
}
