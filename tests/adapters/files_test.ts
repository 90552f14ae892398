import assert from "node:assert/strict";
import { join } from "node:path";
import { loadCaKeys } from "@gateway/shared/ca/load";
import { systemClock } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config/load";
import { ifThere } from "@gateway/shared/files";
import { loadTlsMaterial } from "@gateway/shared/http/tls_material";
import { createMetrics } from "@gateway/shared/metrics";
import { openServiceAudit } from "@gateway/shared/audit/service_audit";
import { getServiceLogger } from "@gateway/shared/log";
import { readOperatorFile } from "../../ctl/read_file.ts";
import { controlPlaneConfig } from "../../control_plane/config.ts";
import { openConfigFile } from "../../signer/config_file.ts";

const readEnv = () => undefined;

/** Everything that reads a file which an operator named, and tells why it could not. */
const READERS: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
  "a config": (path) => loadConfig({ path, what: "control plane config", schema: controlPlaneConfig }),
  "the signer's config": (path) => openConfigFile(path, { clock: systemClock, fetch, readEnv }).read(),
  "a CA key": (path) =>
    loadCaKeys({ ca_key: path, ca_keys: {} }, { what: "config", clock: systemClock, readEnv }),
  "a certificate": (path) =>
    loadTlsMaterial({ cert: { key: "cert", path }, key: { key: "key", path }, ca: { key: "ca", path } }),
  "an audit key": (path) =>
    openServiceAudit({
      config: { audit_log: "/nonexistent/audit.log", audit_key: path, audit_fail_mode: "" },
      clock: systemClock,
      metrics: createMetrics(),
      logger: getServiceLogger("test"),
    }),
  "an operator's file": (path) => readOperatorFile(path, "certificate"),
};

Deno.test.each(Object.entries(READERS).map(([what, read]) => ({ what, read })))(
  "$what that can't be read is told of in the same words",
  async ({ read }) => {
    await assert.rejects(read("/nonexistent/x"), {
      name: "AppError",
      message: /^Cannot .* "\/nonexistent\/x": no such file$/,
    });
    await assert.rejects(read("/tmp"), { message: /^Cannot .* "\/tmp": it is a folder, not a file$/ });
  },
);

Deno.test("ifThere() tells only of what is not there", async () => {
  const folder = await Deno.makeTempDir();
  try {
    assert.equal(await ifThere(Deno.stat(join(folder, "absent"))), undefined);
    assert.equal((await ifThere(Deno.stat(folder)))?.isDirectory, true);
    await Deno.writeTextFile(join(folder, "file"), "");
    await assert.rejects(ifThere(Deno.stat(join(folder, "file", "below"))), Deno.errors.NotADirectory);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
