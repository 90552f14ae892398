import type { ClusterRule } from "@gateway/shared/policy";
import { editConfig, runBrokerCtl, type Stage } from "../stage/stage.ts";
import type { KubernetesObject } from "./api.ts";
import type { Account, Cluster } from "./cluster.ts";

/** The cluster's name in the signer's config. */
export const CLUSTER = "prod";

export interface EnrollOptions {
  /** The rules of the signer for agents; `<ns>` is the namespace that agents use. */
  readonly rules: readonly ClusterRule[];
  /** By default the API server of the cluster. */
  readonly apiServer?: string;
  readonly caPem?: string;
  /** Whether tokens are bound to a Secret that a freeze deletes; default true. */
  readonly bindTokens?: boolean;
}

/** A cluster in the signer's config, with the accounts that `broker-ctl` prints. */
export interface EnrolledCluster {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly agent: Account;
  readonly minter: Account;
  readonly tokenFile: string;
  /** The manifests that `broker-ctl` printed and the test applied. */
  readonly manifests: readonly KubernetesObject[];
}

/** Enrolls a cluster like an operator before the signer starts: config, accounts, minting token. */
export async function enrollCluster(
  { init }: Stage,
  cluster: Cluster,
  { rules, apiServer = cluster.apiServer, caPem = cluster.caPem, bindTokens = true }: EnrollOptions,
): Promise<EnrolledCluster> {
  const [namespace, home] = [await cluster.createNamespace("shop"), await cluster.createNamespace("gateway")];
  const [caFile, tokenFile] = [`${init.folder}/cluster.ca.crt`, `${init.folder}/cluster.token`];
  await Deno.writeTextFile(caFile, caPem);
  await editConfig(init.signer_config, [{
    path: ["kubernetes", "clusters", CLUSTER],
    value: {
      api_server: apiServer,
      ca_cert: caFile,
      token_file: tokenFile,
      groups: ["local"],
      sa_bindings: [{ namespace: home, service_account: "agent" }],
      ...(bindTokens ? { token_binding: { namespace: home } } : {}),
      rules: rules.map((rule) => ({
        ...rule,
        ...(rule.namespaces === undefined
          ? {}
          : { namespaces: rule.namespaces.map((name) => name.replace("<ns>", namespace)) }),
      })),
    },
  }]);
  for (const config of [init.broker_config, init.mcp_config]) {
    await editConfig(config, [{ path: ["api_servers"], value: [apiServer] }]);
  }
  const enrol = ["cluster", "enrol", CLUSTER, "--print", "--json", "--config", init.signer_config];
  const printed = await runBrokerCtl(enrol, init.folder);
  if (!printed.success) throw new Error(new TextDecoder().decode(printed.stderr));
  const { items: manifests } = JSON.parse(new TextDecoder().decode(printed.stdout));
  for (const manifest of manifests) await cluster.apply(manifest);
  const minter = { namespace: home, name: "gateway-minter" };
  const token = await cluster.mintToken(minter, { expirationSeconds: 8 * 86_400 });
  await Deno.writeTextFile(tokenFile, `${token}\n`, { mode: 0o600 });
  return { cluster, namespace, agent: { namespace: home, name: "agent" }, minter, tokenFile, manifests };
}

/** The body of a broker's `POST /v1/sign` for a token. */
export function signRequest(
  { verb, resource, namespace = "", name = "" }: {
    readonly verb: string;
    readonly resource: string;
    readonly namespace?: string;
    readonly name?: string;
  },
): unknown {
  return {
    target_type: "k8s",
    host: CLUSTER,
    role: "target",
    purpose: "oneshot",
    command: `${verb} ${resource} ${namespace || "-"}/${name || "-"}`,
    k8s_verb: verb,
    k8s_resource: resource,
    k8s_namespace: namespace,
    k8s_name: name,
    end_user: "test",
    end_user_groups: null,
  };
}
