import assert from "node:assert/strict";
import { join } from "node:path";
import { createFolder, run } from "./ctl_fixture.ts";

const CONFIG = {
  server_cert: "x",
  server_key: "x",
  client_ca: "x",
  ca_key: "x",
  audit_log: "x",
  audit_key: "x",
  callers: { "broker-1": { allowed_groups: ["ops"] }, "broker-2": { allowed_groups: [] } },
  kubernetes: {
    clusters: {
      prod: {
        api_server: "https://10.0.0.5:6443/",
        ca_cert: "ca.crt",
        token_file: "token",
        groups: ["ops"],
        allowed_callers: ["broker-1"],
        token_ttl_seconds: 900,
        token_binding: { namespace: "gateway" },
        sa_bindings: [
          { groups: ["dba"], namespace: "gateway", service_account: "dba" },
          { namespace: "gateway", service_account: "agent" },
        ],
        rules: [
          { verbs: ["get", "list"], namespaces: ["web"], effect: "allow" },
          { verbs: ["apply"], resources: ["deployments"], namespaces: ["web"], effect: "require_approval" },
          { resources: ["secrets"], effect: "deny" },
          { verbs: ["get"], resources: ["configmaps"], effect: "allow", reveal: true },
        ],
      },
    },
  },
};

async function explain(...flags: string[]) {
  await using folder = await createFolder();
  await Deno.writeTextFile(join(folder.path, "signer.json"), JSON.stringify(CONFIG));
  return await run(folder.path, "policy", "explain", ...flags);
}

Deno.test("policy explain shows what holds for a cluster", async () => {
  assert.deepEqual(await explain("--cluster", "prod"), {
    out: [
      "Cluster:   prod (https://10.0.0.5:6443)",
      "Groups:    ops",
      "Rules:",
      "  EFFECT            VERBS     RESOURCES    NAMESPACES  NAMES",
      "  allow             get,list  *            web         *",
      "  require_approval  apply     deployments  web         *",
      "  deny              *         secrets      *           *",
      "  allow             get       configmaps   *           *      reveal",
      "Accounts:",
      "  gateway/dba  for dba",
      "  gateway/agent  for everybody",
      "Tokens:    900s, taken back by a freeze",
      "",
    ].join("\n"),
    err: "",
    exit: 0,
  });
});

Deno.test.each<{ name: string; flags: string[]; lines: readonly string[] }>([
  {
    name: "an allowed action",
    flags: ["--action", "get pods web/shop-1"],
    lines: [
      "Action:    get pods web/shop-1",
      String.raw`Decision:  ALLOWED (allow:^(?:get|list) (?:[^ ]+) (?:web)/(?:[^ ]+)$)`,
      "Account:   gateway/agent",
      "Valid for: 900s",
    ],
  },
  {
    name: "an action that waits for a human, its group filled in, as the end user's account",
    flags: ["--action", "apply deployments web/shop", "--end-user-groups", "dba,ops"],
    lines: [
      "Action:    apply deployments.apps web/shop",
      String
        .raw`Decision:  ALLOWED, requires approval (require_approval:^(?:apply) (?:deployments\.apps) (?:web)/(?:[^ ]+)$)`,
      "Account:   gateway/dba",
      "Valid for: 900s",
    ],
  },
  {
    name: "a denied action, with the rule that an agent is not told",
    flags: ["--action", "list secrets web"],
    lines: [
      "Action:    list secrets web/-",
      String.raw`Decision:  DENIED (deny:^(?:[a-z]+) (?:secrets) (?:[^ /]+)/(?:[^ ]+)$)`,
      "Reason:    not allowed by cluster policy",
    ],
  },
  {
    name: "an action that there is not",
    flags: ["--action", "get gizmos web/a"],
    lines: [
      "Action:    get gizmos web/a",
      "Decision:  DENIED (—)",
      `Reason:    unknown k8s resource "gizmos": not in the core table nor this cluster's extra_resources`,
    ],
  },
])("policy explain says of a cluster: $name", async ({ flags, lines }) => {
  const { out, err, exit } = await explain("--cluster", "prod", ...flags);
  assert.deepEqual([err, exit], ["", 0]);
  assert.deepEqual(out.trimEnd().split("\n").slice(13), lines);
});

Deno.test("policy explain --json says of a cluster what the signer would answer, and the rule", async () => {
  const { out } = await explain("--cluster", "prod", "--action", "list secrets web", "--json");
  const { cluster, action, decision } = JSON.parse(out);
  assert.deepEqual([cluster, action], ["prod", "list secrets web/-"]);
  assert.equal(decision.allowed, false);
  assert.match(decision.matched_rule, /^deny:/);
});

Deno.test.each<{ name: string; flags: string[]; error: RegExp; exit: number }>([
  {
    name: "an unknown cluster",
    flags: ["--cluster", "dev"],
    error: /unknown cluster\nhint: broker-ctl cluster list/,
    exit: 1,
  },
  { name: "an inherited name", flags: ["--cluster", "constructor"], error: /unknown cluster/, exit: 1 },
  {
    name: "a command on a cluster",
    flags: ["--cluster", "prod", "--command", "id"],
    error: /'--command' means nothing to a cluster/,
    exit: 2,
  },
  {
    name: "an action that can't be read",
    flags: ["--cluster", "prod", "--action", "get"],
    error: /Cannot read action/,
    exit: 2,
  },
])("policy explain refuses $name", async ({ flags, error, exit }) => {
  const result = await explain(...flags);
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit], ["", exit]);
});
