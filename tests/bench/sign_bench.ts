import { formatPublicKey } from "@gateway/shared/ssh/public_key";
import { SshWriter } from "@gateway/shared/ssh/wire_format";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { load, loadByAgent, type LoadResult } from "./http_load.ts";
import type { Row } from "./row.ts";
import { median, quantile } from "./statistics.ts";

const CONNECTIONS = 16;
const ROUNDS = 5;
const SECONDS = 3;

interface Round {
  readonly bare: LoadResult;
  readonly signer: LoadResult;
}

/** The first costs the machine as little as can be and shows the server's limit; the second is what a broker is. */
const LOADS = [
  { name: "bare sockets", send: load },
  { name: "node:https agent", send: loadByAgent },
] as const;

/** `POST /v1/sign` with audit on disk against a bare handler, in turns. */
export async function benchSign(stage: Stage): Promise<readonly Row[]> {
  const { init } = stage;
  const read = (path: string) => Deno.readTextFile(path);
  const port = freePort();
  const baseline = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--cached-only",
      "--ignore-env",
      "--allow-read",
      `--allow-net=127.0.0.1:${port}`,
      `${ROOT}tests/bench/baseline_server.ts`,
      ...[String(port), `${init.folder}/pki/signer.crt`, `${init.folder}/pki/signer.key`, init.mtls_ca],
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const ended = baseline.status;
  try {
    await poll(() => canConnect(port), { what: "the baseline server" });
    const identity = {
      cert: await read(init.broker.cert),
      key: await read(init.broker.key),
      ca: await read(init.mtls_ca),
    };
    const common = { ...identity, path: "/v1/sign", body: signBody(), connections: CONNECTIONS };
    const signerPort = Number(/"listen": "[^"]*:(\d+)"/.exec(await read(init.signer_config))?.[1]);
    const rows: Row[] = [];
    for (const { name, send } of LOADS) {
      const results: Round[] = [];
      // One unmeasured round each: both are compiled and connected by then.
      await send({ ...common, port, seconds: 2 });
      await send({ ...common, port: signerPort, seconds: 2 });
      for (let round = 0; round < ROUNDS; round++) {
        const bare = await send({ ...common, port, seconds: SECONDS });
        const signer = await send({ ...common, port: signerPort, seconds: SECONDS });
        if (signer.failures > 0) throw new Error(`${signer.failures} sign requests failed`);
        results.push({ bare, signer });
      }
      rows.push(...rowsOf(name, results));
    }
    return rows;
  } finally {
    baseline.kill("SIGKILL");
    await ended;
  }
}

function rowsOf(name: string, results: readonly Round[]): readonly Row[] {
  const ratio = median(results.map(({ bare, signer }) => signer.perSecond / bare.perSecond));
  const signs = median(results.map(({ signer }) => signer.perSecond));
  const bares = median(results.map(({ bare }) => bare.perSecond));
  const p50 = median(results.map(({ signer }) => quantile(signer.latencies, 0.5)));
  const p99 = median(results.map(({ signer }) => quantile(signer.latencies, 0.99)));
  return [
    {
      what: `sign, ${CONNECTIONS} connections, ${name}`,
      measured: `${signs.toFixed(0)}/s`,
      baseline: `${bares.toFixed(0)}/s bare node:https mTLS`,
      ratio: ratio.toFixed(2),
      target: "at least 0.45",
      met: ratio >= 0.45,
    },
    {
      what: `sign, p99 against p50, ${name}`,
      measured: `${p99.toFixed(1)} ms`,
      baseline: `${p50.toFixed(1)} ms`,
      ratio: (p99 / p50).toFixed(1),
      target: "under 5",
      met: p99 / p50 < 5,
    },
  ];
}

function signBody(): string {
  const writer = new SshWriter();
  writer.text("ssh-ed25519");
  writer.string(new Uint8Array(32).fill(5));
  return JSON.stringify({
    host: HOST,
    role: "target",
    purpose: "oneshot",
    command: "uptime",
    public_key: formatPublicKey("ssh-ed25519", writer.bytes()),
    end_user: "bench",
    end_user_groups: null,
  });
}

async function canConnect(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}
