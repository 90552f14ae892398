import assert from "node:assert/strict";
import { join } from "node:path";
import { loadCaKeys } from "@gateway/shared/ca";
import { systemClock } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import { ifThere, readRegularFile } from "@gateway/shared/files";
import { loadTlsMaterial } from "@gateway/shared/http";
import { createMetrics } from "@gateway/shared/service/metrics";
import { getServiceLogger } from "@gateway/shared/service/log";
import { openServiceAudit } from "@gateway/shared/audit";
import { readApiLogs } from "../../ctl/audit/tokens.ts";
import { readOperatorFile } from "../../ctl/kit/files.ts";
import { poll } from "../stage/poll.ts";
import { controlPlaneConfig } from "../../control_plane/config/config.ts";
import { openConfigFile } from "../../signer/config/config_file.ts";

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
  "an audit log of an API server": (path) => readApiLogs([path], "/", () => {}),
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

/** What can stand where a file should, by the program that makes it. */
const SPECIAL = [
  { made: ["mkfifo"], says: /^Cannot .*: it is a pipe, not a file$/ },
  { made: ["ln", "-s", "/dev/zero"], says: /^Cannot .*: it is a device, not a file$/ },
  { made: ["mkdir"], says: /^Cannot .*: it is a folder, not a file$/ },
  { made: ["truncate", "-s", "1T"], says: /^Cannot .*: it is larger than 256 MiB$/ },
];

Deno.test.each(SPECIAL)(
  "what $made makes is named by whoever reads a file, and not waited for",
  async (row) => {
    const folder = await Deno.makeTempDir();
    try {
      const path = join(folder, "x");
      const [program = "", ...args] = row.made;
      assert.ok((await new Deno.Command(program, { args: [...args, path] }).output()).success);
      for (const [what, read] of Object.entries(READERS)) {
        // A log may be as large as it likes.
        if (program === "truncate" && what.includes("API server")) continue;
        await assert.rejects(read(path), { message: row.says }, what);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

Deno.test("nobody waits for a pipe that takes a file's name at the moment when that is read", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const [path, pipe] = [join(folder, "x"), join(folder, "pipe")];
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    let ended = 0;
    for (let count = 1; count <= 50; count++) {
      await Deno.writeTextFile(`${path}.new`, "text");
      await Deno.rename(`${path}.new`, path);
      readRegularFile(path).then(() => ended++, () => ended++);
      // The answer to whatever was asked about the file is taken after this.
      Deno.linkSync(pipe, `${path}.new`);
      Deno.renameSync(`${path}.new`, path);
      await poll(() => ended === count, { what: "the end of a reading" });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
