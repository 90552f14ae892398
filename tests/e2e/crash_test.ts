import assert from "node:assert/strict";
import { formatPublicKey, SshWriter } from "@gateway/shared/ssh";
import { assertLogVerifies, recordsOf } from "../stage/audit.ts";
import { readProcFile } from "../stage/proc_file.ts";
import { poll } from "../stage/poll.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const ROUNDS = 3;
const WORKERS = 8;

function publicKeyLine(): string {
  const writer = new SshWriter();
  writer.text("ssh-ed25519");
  writer.string(new Uint8Array(32).fill(3));
  return formatPublicKey("ssh-ed25519", writer.bytes());
}

/** Asks for certificates until the signer is gone; gives the serials that it acknowledged. */
async function signUntilGone(stage: Stage, onIssued: (serial: bigint) => void): Promise<void> {
  const client = await stage.signerClient("broker");
  const body = {
    host: HOST,
    role: "target",
    purpose: "oneshot",
    command: "uptime",
    public_key: publicKeyLine(),
  };
  while (true) {
    try {
      const answer = await client.request({ method: "POST", path: "/v1/sign", body });
      const { serial } = answer.body as { serial?: bigint | number };
      if (answer.status === 200 && serial !== undefined) onIssued(BigInt(serial));
    } catch {
      return;
    }
  }
}

async function serialsOf(log: string): Promise<ReadonlySet<bigint>> {
  return new Set((await recordsOf(log)).map(({ serial }) => BigInt(serial as bigint | number)));
}

Deno.test("kill -9 of the signer in mid-write: the chain verifies, nothing acknowledged is missing", () =>
  withStage({}, async (stage) => {
    const acknowledged: bigint[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const signer = await stage.startSigner();
      const before = acknowledged.length;
      const workers = Array.from(
        { length: WORKERS },
        () => signUntilGone(stage, (serial) => acknowledged.push(serial)),
      );
      await poll(() => acknowledged.length >= before + 100 + 37 * round, {
        what: "certificates",
        intervalMs: 1,
      });
      await signer.stop("SIGKILL");
      await Promise.all(workers);
    }
    const { signer_audit_log: log, signer_audit_key: key } = stage.init;
    await (await stage.startSigner()).stop();
    await assertLogVerifies(log, key);
    const recorded = await serialsOf(log);
    const missing = acknowledged.filter((serial) => !recorded.has(serial));
    assert.deepEqual(missing, []);
    assert.ok(acknowledged.length >= 300);
  }));

Deno.test("kill -9 of the broker in mid-write: the chain verifies, nothing acknowledged is missing", () =>
  withStage({}, async (stage) => {
    await stage.startSigner();
    const acknowledged: bigint[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const broker = await stage.startBroker();
      const before = acknowledged.length;
      const workers = Array.from({ length: 4 }, async () => {
        const client = await stage.brokerClient();
        while (true) {
          try {
            const answer = await client.request({
              method: "POST",
              path: "/v1/ssh_run",
              body: { host: HOST, command: "uptime" },
            });
            if (answer.status === 200) {
              acknowledged.push(BigInt((answer.body as { serial: bigint | number }).serial));
            }
          } catch {
            return;
          }
        }
      });
      await poll(() => acknowledged.length >= before + 4 + round, { what: "commands" });
      await broker.stop("SIGKILL");
      await Promise.all(workers);
    }
    const { broker_audit_log: log, broker_audit_key: key } = stage.init;
    await (await stage.startBroker()).stop();
    await assertLogVerifies(log, key);
    const recorded = await serialsOf(log);
    assert.deepEqual(acknowledged.filter((serial) => !recorded.has(serial)), []);
  }));

Deno.test("a signer killed between request and answer is an upstream failure, and is found again after its restart", () =>
  withStage({}, async (stage) => {
    const signer = await stage.startSigner();
    await stage.startBroker();
    const client = await stage.brokerClient();
    signer.kill("SIGSTOP");
    const answering = client.request({
      method: "POST",
      path: "/v1/ssh_run",
      body: { host: HOST, command: "uptime" },
    });
    // The frozen signer does not read what the broker has sent.
    await poll(hasUnreadBytes, {
      what: "the request to be under way",
    });
    signer.kill("SIGKILL");
    const answer = await answering;
    const { code, detail = "" } = answer.body as { code?: string; detail?: string };
    assert.deepEqual([answer.status, code], [502, "upstream_failure"]);
    assert.doesNotMatch(detail, /127\.0\.0\.1|:\d{4,5}/, "no address of the inside");
    assert.equal((await recordsOf(stage.init.broker_audit_log))[0]?.["outcome"], "error");

    await stage.startSigner();
    const recovered = await client.request({
      method: "POST",
      path: "/v1/ssh_run",
      body: { host: HOST, command: "uptime" },
    });
    assert.equal(recovered.status, 200, "a restarted signer is found again");
  }));

/** Whether some connection has bytes waiting that its process has not read (`/proc/net/tcp`, rx_queue). */
async function hasUnreadBytes(): Promise<boolean> {
  const table = await readProcFile("/proc/net/tcp");
  return table.split("\n").some((line) => / 01 [0-9A-F]{8}:(?!00000000)[0-9A-F]{8} /.test(line));
}
