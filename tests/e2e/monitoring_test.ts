/** Dashboard and alerts query only metrics that services export, and Prometheus accepts the alerts. */
import assert from "node:assert/strict";
import { parse } from "yaml";
import { createFolder } from "../adapters/ctl_fixture.ts";
import { isMissing } from "../stage/is_missing.ts";
import dashboard from "../../deploy/monitoring/dashboard.json" with { type: "json" };
import { HOST, post } from "../stage/stage.ts";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { share } from "../stage/share.ts";
import { type ControlPlaneScene, FREE, GATED, withControlPlane } from "./control_plane_scene.ts";

const MONITORING = `${ROOT}deploy/monitoring`;
const ignore = isMissing("promtool", ["/usr/bin/promtool", "/usr/local/bin/promtool"]);

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface AlertTest {
  readonly name: string;
  readonly alert_rule_test: readonly {
    readonly alertname: string;
    readonly exp_alerts: readonly unknown[];
  }[];
}

const ALERTS: readonly Alert[] = parse(await Deno.readTextFile(`${MONITORING}/alerts.yml`)).groups[0].rules;
const ALERT_TESTS: readonly AlertTest[] =
  parse(await Deno.readTextFile(`${MONITORING}/alerts_test.yml`)).tests;

/** Every query of the dashboard, with the title of its panel. */
const QUERIES = dashboard.panels.flatMap(({ title, targets = [] }: {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}) => targets.map(({ expr }) => ({ name: `the panel ${title}`, expr })));

/** Metrics and labels that Prometheus creates itself. */
const OF_PROMETHEUS = { metrics: ["up"], labels: ["job", "instance", "le"] };

/** The metrics of a query, each with the labels that select it. */
function metricsOf(expr: string): readonly { readonly name: string; readonly labels: readonly string[] }[] {
  const inner = expr.replaceAll(/\[[^\]]*\]/g, "").replaceAll(
    /\b(?:by|without|on|ignoring)\s*\([^)]*\)/g,
    "",
  );
  return [...inner.matchAll(/([a-z_]\w*)\s*(?:\{([^}]*)\}|(?![\w(]))/g)]
    .filter(([, name = ""]) => !/^(?:and|or|unless|bool|s|m|h|d)$/.test(name))
    .filter(([text, name = ""]) =>
      !inner.slice(inner.indexOf(text) + name.length).trimStart().startsWith("(")
    )
    .map(([, name = "", labels = ""]) => ({
      name,
      labels: [...labels.matchAll(/(\w+)\s*[!=]~?/g)].map(([, label = ""]) => label),
    }));
}

Deno.test.each([
  { expr: 'rate(a_total{status="5..", x!~"b"}[5m]) > 2', found: { a_total: ["status", "x"] } },
  { expr: "sum by (le, job) (rate(b_bucket[5m])) / c_limit", found: { b_bucket: [], c_limit: [] } },
  { expr: 'time() - d_seconds{job=~"a"}', found: { d_seconds: ["job"] } },
])("metricsOf() returns the metrics of $expr", ({ expr, found }) => {
  const metrics = metricsOf(expr);
  assert.deepEqual(Object.fromEntries(metrics.map(({ name, labels }) => [name, labels])), found);
});

/** The metrics of a service: the labels of each series name. */
type Shown = Map<string, Set<string>>;

async function scrape(monitor: string, into: Shown): Promise<string> {
  const text = await (await fetch(`http://${monitor}/metrics`)).text();
  for (const [, name = "", type] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm)) {
    const names = type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => name + end) : [name];
    for (const each of names) if (!into.has(each)) into.set(each, new Set());
  }
  for (const [, name = "", labels = ""] of text.matchAll(/^(\w+)\{(.*)\} /gm)) {
    for (const [, label = ""] of labels.matchAll(/(\w+)="/g)) into.get(name)?.add(label);
  }
  return text;
}

const withServices = share<ControlPlaneScene & { readonly services: readonly ServiceProcess[] }>((use) =>
  withControlPlane({}, async (scene) => {
    const { stage } = scene;
    const services = [await stage.startSigner(), await stage.startControlPlane(), await stage.startBroker()];
    await use(Object.assign(scene, { services }));
  })
);

Deno.test("services export every metric and label that the dashboard and the alerts use", () =>
  withServices(async (scene) => {
    const { stage, services } = scene;
    const agent = await stage.brokerClient();
    const run = (command: string) => post(agent, "/v1/ssh_run", { host: HOST, command });
    assert.equal((await run(FREE)).status, 200);
    assert.equal((await run("not-allowed --secret-argument")).status, 403);
    const id = await scene.park();
    assert.equal((await scene.decide(id, { approve: true, learn: false, ttl_seconds: 0 })).status, 200);
    const shown: Shown = new Map();
    const monitors = services.map(({ command }) => command.monitor);
    // The event loop is sampled every second.
    await poll(
      async () =>
        /^process_event_loop_lag_seconds_count\{.*\} [1-9]/m.test(await scrape(monitors[0] ?? "", shown)),
      { what: "the lag of the event loop" },
    );
    const texts = await Promise.all(monitors.map((monitor) => scrape(monitor, shown)));

    const asked = [...QUERIES, ...ALERTS.map(({ alert, expr }) => ({ name: `the alert ${alert}`, expr }))];
    assert.ok(asked.length > 50, String(asked.length));
    const missing = asked.flatMap(({ name, expr }) =>
      metricsOf(expr).flatMap((metric) => {
        if (OF_PROMETHEUS.metrics.includes(metric.name)) return [];
        const labels = shown.get(metric.name);
        if (labels === undefined) return [`${name}: ${metric.name}`];
        const unknown = metric.labels.filter((label) =>
          labels.size > 0 && !labels.has(label) && !OF_PROMETHEUS.labels.includes(label)
        );
        return unknown.map((label) => `${name}: ${metric.name} has no ${label}`);
      })
    );
    assert.deepEqual(missing, []);

    const reference = await Deno.readTextFile(`${ROOT}docs/reference/metrics.md`);
    const names = texts.flatMap((text) => text.match(/(?<=^# TYPE )\w+/gm) ?? []);
    assert.deepEqual(names.filter((name) => !reference.includes(`| \`${name}\` |`)), []);

    // Label values are fixed sets. No label contains text of a request.
    for (const text of texts) {
      for (const word of [HOST, "uptime", "not-allowed", GATED, "secret", "local", id, stage.init.folder]) {
        const line = text.split("\n").find((line) => !line.startsWith("#") && line.includes(word));
        assert.equal(line, undefined);
      }
    }
    if (!ignore) { for (const text of texts) await checkMetrics(text); }
    const counts = (name: string) =>
      texts.flatMap((text) => text.match(new RegExp(`^${name}_count\\{.*`, "gm")) ?? []);
    assert.deepEqual(counts("broker_exec_duration_seconds"), [
      'broker_exec_duration_seconds_count{result="ok"} 1',
    ]);
    assert.deepEqual(counts("broker_connect_duration_seconds"), [
      'broker_connect_duration_seconds_count{result="ok"} 1',
    ]);
    assert.deepEqual(counts("controlplane_approval_wait_seconds"), [
      'controlplane_approval_wait_seconds_count{result="allowed"} 1',
    ]);
    assert.deepEqual(counts("signer_sign_duration_seconds").toSorted(), [
      'signer_sign_duration_seconds_count{result="denied"} 1',
      'signer_sign_duration_seconds_count{result="ok"} 2',
    ]);
    const expiries = texts.map((text) =>
      text.match(/(?<=^certificate_expiry_timestamp_seconds\{certificate=")[^"]+/gm)
    );
    assert.deepEqual(expiries, [
      ["client_ca", "server_cert"],
      ["client_ca", "server_cert", "signer.ca", "signer.client_cert"],
      ["client_ca", "server_cert", "signer.ca", "signer.client_cert"],
    ]);
  }));

Deno.test("the metrics show a failed reload and the time of the last successful one", () =>
  withServices(async ({ stage, services }) => {
    const monitor = services[0]?.command.monitor;
    const operator = await stage.signerClient("operator");
    const reload = () => post(operator, "/v1/reload");
    const shown = async (): Promise<readonly string[]> => {
      const text = await (await fetch(`http://${monitor}/metrics`)).text();
      return text.match(/^config_last_reload_\w+ .*$/gm) ?? [];
    };
    const [time = "", successful] = (await shown()).toSorted();
    assert.match(time, /_timestamp_seconds \d{10}$/);
    assert.equal(successful, "config_last_reload_successful 1");
    const text = await Deno.readTextFile(stage.init.signer_config);
    await Deno.writeTextFile(stage.init.signer_config, `${text} {`);
    assert.equal((await reload()).status, 500);
    assert.ok((await shown()).includes("config_last_reload_successful 0"));
    assert.ok((await shown()).includes(time));
    await Deno.writeTextFile(stage.init.signer_config, text);
    assert.equal((await reload()).status, 200);
    assert.ok((await shown()).includes("config_last_reload_successful 1"));
  }));

Deno.test("each alert has a test case in which it fires and one in which it does not", () => {
  const cases = ALERT_TESTS.flatMap((test) => test.alert_rule_test);
  for (const { alert, annotations } of ALERTS) {
    const own = cases.filter(({ alertname }) => alertname === alert).map(({ exp_alerts }) =>
      exp_alerts.length
    );
    assert.ok(own.includes(1) && own.includes(0), alert);
    assert.deepEqual(Object.keys(annotations), ["summary", "description"]);
  }
});

/** Checks that Prometheus can parse the metrics and that their names follow its conventions. */
async function checkMetrics(text: string): Promise<void> {
  const child = new Deno.Command("promtool", {
    args: ["check", "metrics"],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text));
  await writer.close();
  const { success, stdout, stderr } = await child.output();
  assert.ok(success, new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr));
}

async function promtool(...args: readonly string[]): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command("promtool", { args: [...args], cwd: MONITORING })
    .output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  assert.ok(success && !/FAILED|WARNING/.test(text), text);
}

Deno.test.each([
  { args: ["check", "config", "prometheus.yml"] },
  { args: ["check", "rules", "alerts.yml"] },
  { args: ["test", "rules", "alerts_test.yml"] },
])("promtool $args reports no problem", { ignore }, ({ args }) => promtool(...args));

Deno.test("promtool accepts every query of the dashboard", { ignore }, async () => {
  await using folder = await createFolder();
  const rules = QUERIES.map(({ expr }, index) => ({
    record: `query_${index}`,
    expr: expr.replaceAll("$__rate_interval", "5m").replaceAll("$instance", ".+"),
  }));
  const path = `${folder.path}/queries.json`;
  await Deno.writeTextFile(path, JSON.stringify({ groups: [{ name: "dashboard", rules }] }));
  await promtool("check", "rules", path);
});
