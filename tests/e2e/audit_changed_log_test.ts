import assert from "node:assert/strict";
import { fill, makeRoom, mayNotMount, TinyDisk } from "../adapters/tiny_disk.ts";
import { signBody } from "../bench/sign_request.ts";
import { poll } from "../stage/poll.ts";
import { withStage } from "../stage/with_stage.ts";

const FORGED = '{"outcome":"forged"}\n';

/** What is done to a log, and how that is undone. */
interface Fault {
  readonly name: string;
  readonly breakLog: (log: string) => void;
  readonly repair: (log: string) => void;
}

/** Breaks the logs of a signer and a control plane, looks at `/readyz` before any request, and repairs them. */
async function assertReadyAgain(folder: string, { breakLog, repair }: Fault): Promise<void> {
  const logs = ["signer", "control-plane"].map((service) => `${folder}/${service}/audit.log`);
  for (const service of ["signer", "control-plane"]) await Deno.mkdir(`${folder}/${service}`);
  const logAt = (index: number) => [{ path: ["audit_log"], value: logs[index] }];
  await withStage({ controlPlane: true, signer: logAt(0), controlPlaneConfig: logAt(1) }, async (stage) => {
    const services = [await stage.startSigner(), await stage.startControlPlane()];
    const client = await stage.controlPlaneClient("broker");
    const sign = () => client.request({ method: "POST", path: "/v1/sign", body: JSON.parse(signBody()) });
    for (const [index, service] of services.entries()) {
      const log = logs[index] ?? "";
      const readiness = async () => {
        const response = await fetch(`http://${service.command.monitor}/readyz`);
        await response.body?.cancel();
        return response.status;
      };
      assert.equal((await sign()).status, 200);
      breakLog(log);
      await poll(async () => await readiness() === 503, {
        what: `${log} to keep its service from being ready`,
      });
      if (index === 0) {
        // The last page of a log on a full disk has room for some records.
        await poll(async () => (await sign()).status >= 500, {
          what: "the signer to withhold a certificate",
        });
      }
      repair(log);
      await poll(async () => await readiness() === 200, { what: `the service of ${log} to be ready again` });
      assert.equal((await sign()).status, 200);
    }
  });
}

Deno.test.each<Fault>([
  {
    name: "is moved away",
    breakLog: (log) => Deno.renameSync(log, `${log}.away`),
    repair: (log) => Deno.renameSync(`${log}.away`, log),
  },
  {
    name: "gets bytes of another process",
    breakLog: (log) => Deno.writeTextFileSync(log, FORGED, { append: true }),
    repair: (log) => Deno.truncateSync(log, Deno.statSync(log).size - FORGED.length),
  },
])(
  "a service whose audit log $name is not ready and signs nothing, until that is repaired",
  async (fault) => {
    const folder = await Deno.makeTempDir({ prefix: "audit-changed-" });
    try {
      await assertReadyAgain(folder, fault);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

Deno.test({
  name: "a service whose audit log is on a full disk is not ready, until there is room (needs root)",
  ignore: mayNotMount,
}, async () => {
  await using disk = await TinyDisk.mount("size=256k");
  const filler = `${disk.folder}/filler`;
  await assertReadyAgain(disk.folder, {
    name: "is on a full disk",
    breakLog: () => fill(filler),
    repair: () => makeRoom(filler),
  });
});
