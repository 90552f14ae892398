import { type ApprovalRecord, signResponse } from "@gateway/shared/wire";
import type { JsonClient } from "@gateway/shared/http";
import { CLUSTER, enrollCluster, type EnrolledCluster, signRequest } from "../kubernetes/enroll.ts";
import { findAssets, stopReal } from "../kubernetes/real.ts";
import { startCluster } from "../kubernetes/start.ts";
import { poll } from "../stage/poll.ts";
import { post, runBrokerCtl, Stage } from "../stage/stage.ts";
import { Agent, type ToolAnswer } from "./agent.ts";
import { showAudit } from "./audit_step.ts";
import type { Step, StepResult } from "./reporter.ts";
import { brokerCtl, findApproval, listApprovals } from "./scene.ts";
import { outputOf } from "./tool_output.ts";

/** The participants, after everything has started. */
interface ClusterScene {
  readonly stage: Stage;
  readonly enrolled: EnrolledCluster;
  readonly agent: Agent;
  readonly approver: JsonClient;
}

const POD = "web-1";
const LAST_LINES = "GET /cart 500 no such table: carts\nGET / 200\n";
const LOG = `GET / 200\n${LAST_LINES}`;

/** Timeout for the API server, which caches valid tokens for 10 s. */
const CACHE_TIMEOUT_MS = 30_000;

/**
 * Returns the steps of the demo with a cluster, in order, for a new installation in an empty directory. `resources`
 * stops everything that the steps start. The signal cancels their waits.
 */
export function createClusterSteps(
  dir: string,
  resources: AsyncDisposableStack,
  signal: AbortSignal,
): readonly Step[] {
  let scene: ClusterScene;
  let stage: Stage;
  let enrolled: EnrolledCluster;
  let asked: ApprovalRecord;
  let answer: Promise<ToolAnswer>;
  let serial = "";
  let checked: string;
  return [
    {
      name: "enrol",
      title:
        "broker-ctl prints the accounts that a cluster needs, and the cluster's administrator applies them",
      async run() {
        stage = resources.use(await Stage.create({ dir, controlPlane: true }));
        resources.defer(stopReal);
        const cluster = resources.use(await startCluster());
        enrolled = await enrollCluster(stage, cluster, {
          rules: [
            {
              verbs: ["get", "list", "logs"],
              resources: ["pods", "configmaps"],
              namespaces: ["<ns>"],
              effect: "allow",
            },
            { verbs: ["apply"], resources: ["configmaps"], namespaces: ["<ns>"], effect: "require_approval" },
          ],
        });
        const shown = await showEnrolment(stage, enrolled);
        [, checked = ""] = /token issued for this check, ID (\S+)/.exec(shown.shows) ?? [];
        return shown;
      },
    },
    {
      name: "start",
      title: "Signer, control plane and broker start; the agent (MCP over stdio) lists the clusters",
      async run() {
        await stage.startSigner(signal);
        await stage.startControlPlane(signal);
        const agent = await Agent.start(await stage.mcpCommand(), signal);
        resources.defer(() => agent.close());
        scene = { stage, enrolled, agent, approver: await stage.controlPlaneClient("approver") };
        const { isError, text } = await agent.callTool("k8s_list_clusters", {});
        return { ok: !isError && text.trim() === CLUSTER, shows: text.trim() };
      },
    },
    {
      name: "list",
      title:
        "The agent lists pods: the signer issues a token for this action, for an account with few rights",
      async run() {
        const { isError, text } = await call(scene, "k8s_list", { resource: "pods", output: "json" });
        const names = namesOf(text);
        return { ok: !isError && names.join() === POD, shows: `pods: ${names.join(", ")}` };
      },
    },
    {
      name: "logs",
      title: `The agent reads the last lines of pod ${POD}`,
      async run() {
        const { isError, text } = await call(scene, "k8s_logs", { pod: POD, tail_lines: 2 });
        return { ok: !isError && outputOf(text) === LAST_LINES, shows: text.trim() };
      },
    },
    {
      name: "delete_refused",
      title: "The agent tries to delete the pod: no rule allows this, so the signer issues no token",
      async run() {
        const { isError, text } = await call(scene, "k8s_delete", { resource: "pods", name: POD });
        const { cluster, namespace } = enrolled;
        const pod = await cluster.admin.must({ path: `/api/v1/namespaces/${namespace}/pods/${POD}` });
        return {
          ok: isError && text.includes("signing rejected (403)") &&
            pod.metadata?.deletionTimestamp === undefined,
          shows: text,
        };
      },
    },
    {
      name: "apply_asked",
      title: "The agent applies a change that needs an approval: the approver sees the difference",
      async run() {
        ({ asked, answer } = await ask(scene, signal));
        const list = await brokerCtl(stage, "approval", "list", "--status", "pending", "--verbose");
        return {
          ok: list.ok && list.text.includes(asked.id) && list.text.includes("data.replicas") &&
            await replicas(enrolled) === "2",
          shows: `broker-ctl approval list --status pending --verbose\n${list.text}`,
          facts: { approval_id: asked.id, diff: asked.k8s_diff },
        };
      },
    },
    {
      name: "apply_approved",
      title: "The approver approves the change: the waiting agent's apply succeeds",
      async run() {
        const allowed = await brokerCtl(stage, "approval", "allow", asked.id);
        const { isError, text } = await answer;
        const { decided_by } = await findApproval(scene.approver, asked.id);
        const now = await replicas(enrolled);
        [, serial = ""] = /\[serial=(\d+)\]$/.exec(text) ?? [];
        return {
          ok: allowed.ok && !isError && decided_by === "approver-local" && now === "3",
          shows: `approved by ${decided_by}; data.replicas is now ${now}${isError ? `\n${text}` : ""}`,
          facts: { approved_by: decided_by },
        };
      },
    },
    {
      name: "token_frozen",
      title: "An attacker stole a token of the broker: a freeze revokes it",
      run: () => showFrozenToken(scene, signal),
    },
    {
      name: "audit",
      title: "broker-ctl audit verify, and the uses of one token in the cluster's audit log",
      async run() {
        await scene.agent.close();
        return await showJoinedAudit(scene, { serial, checked });
      },
    },
  ];
}

async function showEnrolment(
  stage: Stage,
  { cluster, namespace, manifests }: EnrolledCluster,
): Promise<StepResult> {
  await cluster.runPod({ namespace, name: POD, containers: { app: LOG } });
  await cluster.admin.must({
    method: "PATCH",
    path: `/api/v1/namespaces/${namespace}/configmaps/settings?fieldManager=gateway`,
    body: settings("2"),
  });
  const { signer_config, folder } = stage.init;
  const check = await runBrokerCtl(["cluster", "check", CLUSTER, "--config", signer_config], folder);
  const assets = findAssets();
  const server = cluster.kind === "real"
    ? "kube-apiserver with etcd"
    : `an embedded API server, because ${"problem" in assets ? assets.problem : "it was requested"}`;
  return {
    ok: check.success,
    shows: [
      `cluster "${CLUSTER}" is ${server}, on ${cluster.apiServer}`,
      `applied: ${manifests.map(({ kind, metadata }) => `${kind} ${metadata?.name}`).join(", ")}`,
      `broker-ctl cluster check ${CLUSTER}`,
      new TextDecoder().decode(check.stdout).trim(),
    ].join("\n"),
    facts: { server: cluster.kind },
  };
}

async function call({ agent, enrolled }: ClusterScene, tool: string, args: Record<string, unknown>) {
  return await agent.callTool(tool, { cluster: CLUSTER, namespace: enrolled.namespace, ...args });
}

/** Sends the agent's request and returns the pending approval. */
async function ask(scene: ClusterScene, signal: AbortSignal) {
  const manifest = JSON.stringify(settings("3"));
  const answer = call(scene, "k8s_apply", { resource: "configmaps", name: "settings", manifest });
  // A later step awaits the answer. Until then, a rejection must not end the demo.
  answer.catch(() => {});
  let asked: ApprovalRecord | undefined;
  await poll(async () => {
    asked = (await listApprovals(scene.approver)).find(({ status }) => status === "pending");
    return asked !== undefined;
  }, { what: "the request to wait for approval", signal });
  if (asked === undefined) throw new Error("no request waits for approval");
  return { asked, answer };
}

/** Requests a token as the broker, because the broker shows its tokens to no other program. */
async function showFrozenToken({ stage, enrolled }: ClusterScene, signal: AbortSignal): Promise<StepResult> {
  const { cluster, namespace } = enrolled;
  const controlPlane = await stage.controlPlaneClient("broker");
  const { body } = await post(
    controlPlane,
    "/v1/sign",
    signRequest({ verb: "list", resource: "pods", namespace }),
  );
  const { k8s_token: token = "" } = signResponse.parse(body);
  const thief = cluster.connect({ token });
  const use = async () => (await thief.ask({ path: `/api/v1/namespaces/${namespace}/pods` })).status;
  const before = await use();
  const frozenAt = performance.now();
  const frozen = await brokerCtl(stage, "freeze", "--caller", "broker-local", "--reason", "DEMO-1");
  await poll(async () => await use() === 401, {
    what: "the API server to reject the token",
    timeoutMs: CACHE_TIMEOUT_MS,
    intervalMs: 100,
    signal,
  });
  const ms = Math.round(performance.now() - frozenAt);
  return {
    ok: before === 200 && frozen.ok,
    shows: `before: ${before}\n${frozen.text}\nafter ${ms} ms: 401, although the token has not expired`,
    facts: { freeze_to_401_ms: ms },
  };
}

async function showJoinedAudit(
  { stage, enrolled }: ClusterScene,
  { serial, checked }: { readonly serial: string; readonly checked: string },
): Promise<StepResult> {
  const verified = await showAudit(stage, ["signer", "control_plane", "mcp"]);
  const { signer_audit_log: log, folder } = stage.init;
  const args = [
    "audit",
    "show",
    "--log",
    log,
    "--all",
    "--serial",
    serial,
    "--join",
    enrolled.cluster.auditLog,
    "--checked",
    checked,
  ];
  const { stdout, success } = await runBrokerCtl(args, folder);
  const text = new TextDecoder().decode(stdout).trim();
  return {
    ok: verified.ok && success && /: issued \S+; used once\n\s+\S+\s+patch 200 /.test(text),
    shows: `${verified.shows}\nuses of the token of the apply, and of the check in the first step:`,
    exhibit: text,
  };
}

function namesOf(text: string): readonly string[] {
  const { items } = JSON.parse(outputOf(text)) as {
    readonly items: readonly { readonly metadata: { readonly name: string } }[];
  };
  return items.map(({ metadata }) => metadata.name);
}

function settings(replicas: string) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { replicas } };
}

async function replicas({ cluster, namespace }: EnrolledCluster): Promise<unknown> {
  const { data } = await cluster.admin.must({ path: `/api/v1/namespaces/${namespace}/configmaps/settings` });
  return (data as Record<string, unknown>).replicas;
}
