import { type ClusterRule, compilePolicy, decideCluster, NO_GRANTS } from "@gateway/shared/policy";
import { sampleAction, sampleCluster } from "@gateway/shared/testing";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { Agent } from "../demo/agent.ts";
import { CLUSTER, signRequest } from "../kubernetes/enroll.ts";
import { freePort } from "../stage/free_port.ts";
import { residentBytes } from "../stage/proc_file.ts";
import { editConfig, type Stage } from "../stage/stage.ts";
import { load } from "./http_load.ts";
import { cpuSeconds } from "./processor_times.ts";
import { signLoad } from "./sign_request.ts";
import {
  compared,
  createStage,
  median,
  type Row,
  type SectionContext,
  settle,
  startProgram,
  timed,
  under,
} from "./harness.ts";

const ROUNDS = 9;
const SECONDS = 1;
/** Requests of each kind. A signer needs about ten seconds of load until its code is compiled. */
const WARM_SECONDS = 8;
const CONNECTIONS = 16;
const CLUSTERS = 200;
const RULES = 20;
const DECISIONS = 2000;
const GETS = 200;
const STARTS = 3;

/** Compares actions on clusters with commands on hosts: signing, decisions, and the memory of a signer. */
export async function benchKubernetes({ dir }: SectionContext): Promise<readonly Row[]> {
  await using stage = await createStage(dir);
  const without = { signer: await signerBytes(stage), broker: await brokerBytes(stage) };
  await using server = await startTokenServer(stage);
  const more = { signer: await signerBytes(stage), broker: await brokerBytes(stage) };
  return [
    await benchSigning(stage),
    await benchGet(stage, server),
    benchDecision(),
    memoryRow("signer", more.signer, without.signer),
    memoryRow("broker (MCP)", more.broker, without.broker),
  ];
}

/** Measures a get over MCP, including its signing, and the same request by bare fetch, in turns. */
async function benchGet(stage: Stage, { apiServer, ca }: TokenServer): Promise<Row> {
  await using _signer = await stage.startSigner();
  const agent = await Agent.start(await stage.mcpCommand(), new AbortController().signal);
  using client = Deno.createHttpClient({ caCerts: [ca] });
  const bare = async () => {
    const response = await fetch(`${apiServer}/api/v1/namespaces/shop/pods/web-1`, { client });
    await response.text();
  };
  const get = async () => {
    const args = { cluster: CLUSTER, namespace: "shop", resource: "pods", name: "web-1" };
    const { isError, text } = await agent.callTool("k8s_get", args);
    if (isError) throw new Error(text);
  };
  const times: { readonly bare: number; readonly get: number }[] = [];
  for (let round = 0; round < GETS; round++) {
    const one = { bare: await timed(bare), get: await timed(get) };
    // The first requests connect and compile.
    if (round >= GETS / 10) times.push(one);
  }
  await agent.close();
  const [whole, share] = [
    median(times.map((one) => one.get)),
    median(times.map((one) => one.get - one.bare)),
  ];
  return under("k8s_get over MCP, without the request itself", share, 10, {
    digits: 1,
    baseline: `${(whole - share).toFixed(1)} ms by bare fetch`,
  });
}

function memoryRow(name: string, bytes: number, without: number): Row {
  const more = bytes - without;
  return {
    what: `${name} with a cluster, idle memory more`,
    measured: `${(more / 1e6).toFixed(1)} MB`,
    baseline: `${(without / 1e6).toFixed(1)} MB without`,
    ratio: "",
    target: "at most 5 MB",
    met: more <= 5e6,
  };
}

/**
 * Sends sign requests for a host and for a cluster, in turns. A fake API server in a separate process answers without
 * delay. The measure is the processor time of the signer, including the kernel: for a host the signer creates a
 * signature, for a cluster it reads a file and exchanges two TLS records with the API server.
 */
async function benchSigning(stage: Stage): Promise<Row> {
  await using signer = await stage.startSigner();
  const common = { ...await signLoad(stage), connections: CONNECTIONS };
  const action = JSON.stringify(signRequest({ verb: "list", resource: "pods", namespace: "shop" }));
  const sign = async (body: string) => {
    const from = await cpuSeconds(signer.pid);
    const { perSecond, latencies, failures } = await load({ ...common, body, seconds: SECONDS });
    if (failures > 0) throw new Error(`${failures} sign requests failed`);
    return { perSecond, ms: (await cpuSeconds(signer.pid) - from) * 1000 / latencies.length };
  };
  for (let second = 0; second < WARM_SECONDS; second++) {
    for (const body of [common.body, action]) await sign(body);
  }
  const rounds: Record<"host" | "cluster", Awaited<ReturnType<typeof sign>>>[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push({ host: await sign(common.body), cluster: await sign(action) });
  }
  const ratio = median(rounds.map(({ host, cluster }) => host.ms / cluster.ms));
  const tell = (what: "host" | "cluster") =>
    `${median(rounds.map((round) => round[what].ms)).toFixed(2)} ms each, ` +
    `${median(rounds.map((round) => round[what].perSecond)).toFixed(0)}/s`;
  return compared(
    {
      what:
        `sign for a cluster (a request to the API server in place of a signature), processor time of the signer alone`,
      measured: tell("cluster"),
      baseline: `${tell("host")} for a host`,
    },
    ratio,
    { atLeast: 0.8 },
  );
}

function benchDecision(): Row {
  const times = [1, CLUSTERS].map((count) => {
    const rules: ClusterRule[] = Array.from({ length: RULES }, (_, i) => ({
      verbs: ["get", "list"],
      resources: ["pods"],
      namespaces: [`team-${i}`],
      effect: "allow",
    }));
    const names = Array.from({ length: count }, (_, i) => `cluster-${i}`);
    const compiled = compilePolicy({
      hosts: {},
      callers: {},
      command_policies: {},
      group_command_policies: {},
      max_ttl_seconds: 0,
      kubernetes: { clusters: Object.fromEntries(names.map((name) => [name, sampleCluster({ rules })])) },
    });
    if (compiled.kind === "invalid") throw new Error(compiled.problems.join("\n"));
    const { clusters } = compiled.policy;
    const decide = (i: number) => {
      const cluster = clusters.get(`cluster-${(i * 7919) % count}`);
      if (cluster === undefined) throw new Error("no cluster");
      const start = performance.now();
      const decision = decideCluster(cluster, sampleAction("list", "pods", `team-${i % RULES}`), {
        grants: NO_GRANTS,
        now: 0,
      });
      const elapsed = performance.now() - start;
      if (decision.kind !== "allowed") throw new Error(decision.kind);
      return elapsed;
    };
    for (let i = 0; i < DECISIONS; i++) decide(i);
    return median(Array.from({ length: DECISIONS }, (_, i) => decide(i)));
  });
  const [one = 0, many = 0] = times;
  return compared(
    {
      what: `decision, ${CLUSTERS} clusters with ${RULES} rules each, median`,
      measured: `${(many * 1000).toFixed(1)} us`,
      baseline: `${(one * 1000).toFixed(1)} us with one cluster`,
    },
    many / one,
    { atMost: 1.5 },
  );
}

interface TokenServer extends AsyncDisposable {
  readonly apiServer: string;
  readonly ca: string;
}

/** Adds a cluster to the signer's config. Its API server is a process that returns one constant token. */
async function startTokenServer({ init }: Stage): Promise<TokenServer> {
  const authority = await createCertificateAuthority({ commonName: "bench cluster CA" });
  const names = { subject: "CN=kube-apiserver", usage: "server", subjectAltNames: ["127.0.0.1"] } as const;
  const { certPem, keyPem } = await issueLeaf(authority, names);
  const [ca, cert, key, token] = ["ca.crt", "server.crt", "server.key", "token"].map((name) =>
    `${init.folder}/cluster.${name}`
  );
  const texts = [authority.certPem, certPem, keyPem, "minting-credential\n"];
  for (const [index, path] of [ca, cert, key, token].entries()) {
    await Deno.writeTextFile(path ?? "", texts[index] ?? "");
  }
  const port = String(freePort());
  const apiServer = `https://127.0.0.1:${port}`;
  await editConfig(init.mcp_config, [{ path: ["api_servers"], value: [apiServer] }]);
  await editConfig(init.signer_config, [{
    path: ["kubernetes", "clusters", CLUSTER],
    value: {
      api_server: apiServer,
      ca_cert: ca,
      token_file: token,
      groups: ["local"],
      sa_bindings: [{ namespace: "gateway", service_account: "agent" }],
      rules: [{ verbs: ["get", "list"], resources: ["pods"], effect: "allow" }],
    },
  }]);
  const allow = ["--allow-read", `--allow-net=127.0.0.1:${port}`];
  const child = startProgram("token_server.ts", [port, cert ?? "", key ?? ""], allow);
  return {
    apiServer,
    ca: authority.certPem,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

/** Returns the memory of a signer without requests after its start, the median of three. */
async function signerBytes(stage: Stage): Promise<number> {
  const bytes: number[] = [];
  for (let run = 0; run < STARTS; run++) {
    await using signer = await stage.startSigner();
    await settle();
    bytes.push(await signer.residentBytes());
  }
  return median(bytes);
}

async function brokerBytes(stage: Stage): Promise<number> {
  await using _signer = await stage.startSigner();
  const bytes: number[] = [];
  for (let run = 0; run < STARTS; run++) {
    const agent = await Agent.start(await stage.mcpCommand(), new AbortController().signal);
    await settle();
    bytes.push(await residentBytes(agent.pid));
    await agent.close();
  }
  return median(bytes);
}
