import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { startMonitor } from "@gateway/shared/http/monitor";
import { createMetrics } from "@gateway/shared/service/metrics";

Deno.test("startMonitor() listens on a free port and serves all its paths", async () => {
  let ready = false;
  const metrics = createMetrics();
  metrics.counter("audit_blocked_total", "Actions denied because audit was unwritable.");
  await using monitor = await startMonitor({ listen: "127.0.0.1:0", isReady: () => ready, metrics });
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${monitor.address.port}${path}`);
    return [response.status, await response.text()];
  };
  assert.deepEqual(await get("/healthz"), [200, "ok\n"]);
  assert.deepEqual(await get("/readyz"), [503, "not ready\n"]);
  ready = true;
  assert.deepEqual(await get("/readyz"), [200, "ready\n"]);
  const [status, text] = await get("/metrics");
  assert.equal(status, 200);
  assert.match(String(text), /^audit_blocked_total 0$/m);
});

Deno.test("startMonitor() refuses a port in use", async () => {
  const options = { listen: "127.0.0.1:0", isReady: () => true, metrics: createMetrics() };
  await using monitor = await startMonitor(options);
  await assert.rejects(
    startMonitor({ ...options, listen: `127.0.0.1:${monitor.address.port}` }),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});
