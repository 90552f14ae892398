import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { recordsOf } from "../stage/audit.ts";
import { poll } from "../stage/poll.ts";
import { brokerCommand, controlPlaneCommand, signerCommand } from "../stage/service_command.ts";
import { HOST, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const TRACEPARENT = `00-${TRACE_ID}-b7ad6b7169203331-01`;
const SERVICES = ["broker", "control_plane", "signer"] as const;

async function run(stage: Stage, command: string, headers: Readonly<Record<string, string>>) {
  const client = await stage.brokerClient();
  const body = { host: HOST, command };
  const answer = await client.request({ method: "POST", path: "/v1/ssh_run", body, headers });
  const { request_id: id = "" } = answer.body as { readonly request_id?: string };
  return { ...answer, id, returned: answer.headers["x-request-id"] };
}

async function recordsOfRequest(stage: Stage, service: (typeof SERVICES)[number], rid: string) {
  return (await recordsOf(stage.init[`${service}_audit_log`])).filter(({ ext }) =>
    (ext as Record<string, unknown>)["request_id"] === rid
  );
}

Deno.test("a request has the same ID in the agent's call and in all audit records, allowed or denied", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const signer = await stage.startSigner();
    await stage.startControlPlane();
    const broker = await stage.startBroker();
    const allowed = await run(stage, "uptime", { "x-request-id": "job-1" });
    assert.deepEqual([allowed.status, allowed.returned], [200, "job-1"], allowed.text);
    const denied = await run(stage, "mysql -phunter2", { "x-request-id": "job-2" });
    assert.deepEqual([denied.status, denied.returned, denied.id], [403, "job-2", "job-2"]);

    const rows = [
      { rid: "job-1", outcomes: ["executed", "forwarded", "issued"], command: "uptime", shown: "uptime" },
      {
        rid: "job-2",
        outcomes: ["error", "denied", "denied"],
        command: "mysql -phunter2",
        shown: "mysql -p[REDACTED:mysql-p-attached]",
      },
    ];
    for (const { rid, outcomes, command, shown } of rows) {
      // The control plane requests a decision from the signer before it requests a certificate.
      const records = (await Promise.all(SERVICES.map((of) => recordsOfRequest(stage, of, rid)))).map((all) =>
        all.at(-1)
      );
      assert.deepEqual(records.map((record) => record?.["outcome"]), outcomes);
      const sha256 = createHash("sha256").update(command).digest("hex");
      assert.deepEqual(records.map((record) => record?.["command"]), [
        shown,
        shown,
        "role=target purpose=oneshot user=agent-local",
      ]);
      const exts = records.map((record) => record?.["ext"] as Record<string, unknown>);
      assert.deepEqual(exts.map(({ host_name }) => host_name), [HOST, HOST, HOST]);
      assert.deepEqual([exts[2]?.["command_line"], exts[2]?.["command_sha256"]], [shown, sha256]);
    }
    for (const headers of [{}, { "x-request-id": "x cmd=ls" }, { "x-request-id": "a".repeat(65) }]) {
      const { returned = "" } = await run(stage, "uptime", headers);
      assert.match(returned, /^[0-9a-f-]{36}$/, "an id that can't be used is replaced");
      const records = await Promise.all(SERVICES.map((of) => recordsOfRequest(stage, of, returned)));
      assert.ok(records.every(({ length }) => length >= 1));
    }
    for (const service of SERVICES) {
      const { [`${service}_audit_log` as const]: log, [`${service}_audit_key` as const]: key } = stage.init;
      const verified = await runBrokerCtl(["audit", "verify", "--log", log, "--key", key], stage.init.folder);
      assert.equal(verified.code, 0, new TextDecoder().decode(verified.stdout));
    }

    await signer.stop();
    const failed = await run(stage, "uptime", { "x-request-id": "job-3" });
    assert.deepEqual([failed.status, failed.id], [502, "job-3"]);
    assert.match(broker.log, /"message":"request failed".*"request_id":"job-3"/);
  }));

interface Span {
  readonly service: string;
  readonly name: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly requestId: string | undefined;
}

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string };
}

/** The spans of one trace as sent to an OpenTelemetry collector. */
function startCollector() {
  const spans: Span[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { resourceSpans = [] } = await request.json();
    for (const { resource, scopeSpans } of resourceSpans) {
      for (const span of scopeSpans.flatMap((scope: { readonly spans: readonly unknown[] }) => scope.spans)) {
        if (span.traceId !== TRACE_ID) continue;
        const { name, spanId, parentSpanId } = span;
        const service = textOf(resource.attributes, "service.name") ?? "";
        spans.push({
          service,
          name,
          spanId,
          parentSpanId,
          requestId: textOf(span.attributes, "gateway.request_id"),
        });
      }
    }
    return Response.json({});
  });
  return { spans, server, url: `http://127.0.0.1:${server.addr.port}` };
}

function textOf(attributes: readonly Attribute[], key: string): string | undefined {
  return attributes.find((attribute) => attribute.key === key)?.value.stringValue;
}

Deno.test("with OTEL_DENO=true broker, control plane and signer add their spans to the agent's trace", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const { spans, server, url } = startCollector();
    stage.defer(() => server.shutdown());
    const commands = [
      await signerCommand(stage.init.signer_config),
      await controlPlaneCommand(stage.init.control_plane_config),
      await brokerCommand(stage.init.broker_config, "serve-http"),
    ];
    for (const command of commands) {
      await stage.start({
        ...command,
        env: {
          OTEL_DENO: "true",
          OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
          OTEL_EXPORTER_OTLP_ENDPOINT: url,
          OTEL_SERVICE_NAME: command.name,
          OTEL_BSP_SCHEDULE_DELAY: "100",
        },
      });
    }
    const { status, text } = await run(stage, "uptime", {
      "x-request-id": "job-1",
      traceparent: TRACEPARENT,
    });
    assert.equal(status, 200, text);
    const find = (service: string, name: string) =>
      spans.filter((span) => span.service === service && span.name === name && span.requestId === "job-1");
    const isWhole = () =>
      Promise.resolve(
        ["serve-http", "control-plane", "signer"].every((service) => find(service, "POST").length > 0),
      );
    await poll(isWhole, { what: "the spans of three services" });
    const isChild = (child: Span) => spans.some(({ spanId }) => spanId === child.parentSpanId);
    assert.ok(find("control-plane", "POST").some(isChild), "within a span of the broker");
    assert.ok(find("signer", "POST").some(isChild), "within a span of the control plane");
  }));

Deno.test("services without spans forward a trace context unchanged", () =>
  withStage({ controlPlane: true }, async (stage) => {
    // Only the signer creates spans. They join the agent's trace only if all services forward its context.
    const { spans, server, url } = startCollector();
    stage.defer(() => server.shutdown());
    await stage.start({
      ...await signerCommand(stage.init.signer_config),
      env: {
        OTEL_DENO: "true",
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_BSP_SCHEDULE_DELAY: "100",
      },
    });
    await stage.startControlPlane();
    await stage.startBroker();
    await run(stage, "uptime", { traceparent: TRACEPARENT });
    const fromAgent = () =>
      Promise.resolve(spans.some(({ parentSpanId }) => parentSpanId === TRACEPARENT.split("-")[2]));
    await poll(fromAgent, { what: "a span of the signer in the agent's trace" });
  }));
