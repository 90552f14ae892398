import assert from "node:assert/strict";
import { createMetrics } from "../service/metrics.ts";
import { respondToMonitor } from "./monitor.ts";

const ask = (path: string, isReady: boolean, method = "GET") =>
  respondToMonitor(new Request(`http://localhost${path}`, { method }), {
    isReady: () => isReady,
    metrics: createMetrics(),
  });

Deno.test.each([
  { path: "/healthz", isReady: true, status: 200, body: "ok\n" },
  { path: "/healthz", isReady: false, status: 200, body: "ok\n" },
  { path: "/healthz?x", isReady: true, status: 200, body: "ok\n" },
  { path: "/readyz", isReady: true, status: 200, body: "ready\n" },
  { path: "/readyz", isReady: false, status: 503, body: "not ready\n" },
  { path: "/metrics", isReady: false, status: 200, body: "" },
  { path: "/", isReady: true, status: 404, body: "not found\n" },
  { path: "/healthz/", isReady: true, status: 404, body: "not found\n" },
  { path: "/v1/sign", isReady: true, status: 404, body: "not found\n" },
])(
  "respondToMonitor() answers $status to $path when ready is $isReady",
  async ({ path, isReady, status, body }) => {
    for (const method of ["GET", "POST", "DELETE"]) {
      const response = await ask(path, isReady, method);
      assert.equal(response.status, status);
      assert.equal(await response.text(), body);
    }
  },
);

Deno.test.each([
  { isReady: true, body: "not ready: no answer from the signer for 12 s\n" },
  { isReady: false, body: "not ready\n" },
])(
  "respondToMonitor() says what keeps a service from its work, ready or not: $isReady",
  async ({ isReady, body }) => {
    const response = await respondToMonitor(new Request("http://localhost/readyz"), {
      isReady: () => isReady,
      problem: () => "no answer from the signer for 12 s",
      metrics: createMetrics(),
    });
    assert.deepEqual([response.status, await response.text()], [503, body]);
  },
);

Deno.test("respondToMonitor() gives metrics their content type", async () => {
  const response = await ask("/metrics", true);
  assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
});
