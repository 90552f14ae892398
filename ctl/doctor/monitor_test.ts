import assert from "node:assert/strict";
import { readStatus } from "./monitor.ts";

const METRICS = `# HELP gateway_build_info Always 1; what runs
# TYPE gateway_build_info gauge
gateway_build_info{service="signer",version="1.2.0",deno="2.9.6"} 1
certificate_expiry_timestamp_seconds{certificate="server_cert"} 2000
certificate_expiry_timestamp_seconds{certificate="client_ca"} 1000
krl_version 1790000000000
state_age_seconds 0.25
state_clock_offset_seconds -0.5
state_database_info{server="db1:5432",role="primary"} 1
state_instance_info{instance="signer-1"} 1
state_member_info{instance="signer-2"} 1
state_member_info{instance="signer-1"} 1
`;
const answers = (text: string, ok = true, ready = "ready\n") =>
  readStatus({ address: "h:1", ready: { ok, text: ready }, metrics: text, aheadSeconds: 3 });

Deno.test("readStatus() reads what a signer shows", () => {
  assert.deepEqual(answers(METRICS), {
    ...{ address: "h:1", isReady: true, problem: "", members: ["signer-1", "signer-2"] },
    ...{ service: "signer", version: "1.2.0", instance: "signer-1", stateAgeSeconds: 0.25 },
    ...{ database: "db1:5432 primary", krlVersion: 1_790_000_000_000, clockOffsetSeconds: -0.5 },
    processId: undefined,
    certificate: { name: "client_ca", endsAt: 1_000_000 },
  });
});

Deno.test("readStatus() takes this machine's clock where there is no database", () => {
  const { clockOffsetSeconds, members, database } = answers(
    'gateway_build_info{service="broker",version="1"} 1',
  );
  assert.deepEqual({ clockOffsetSeconds, members, database }, {
    ...{ clockOffsetSeconds: 3, members: [], database: undefined },
  });
});

Deno.test.each([
  {
    name: "one that is not ready",
    text: METRICS,
    ok: false,
    ready: "not ready: too old\n",
    problem: "not ready: too old",
  },
  {
    name: "another program",
    text: "<html>200 OK</html>",
    ok: true,
    ready: "hello",
    problem: "what answers there is no service of the gateway",
  },
  {
    name: "values that are no numbers",
    text: 'gateway_build_info{service="signer"} x',
    ok: true,
    ready: "ready",
    problem: "what answers there is no service of the gateway",
  },
])("readStatus() never takes $name for well", ({ text, ok, ready, problem }) => {
  const status = answers(text, ok, ready);
  assert.equal(status.isReady, false);
  assert.equal(status.problem, problem);
});

Deno.test("readStatus() reads labels with quotes and line ends", () => {
  const { instance } = answers(String.raw`state_instance_info{instance="a\"b\\c\nd"} 1`);
  assert.equal(instance, 'a"b\\c\nd');
});
