import { Agent, request } from "node:https";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { openSqliteStore } from "../../signer/live/state/store.ts";
import { KrlHost } from "../stage/krl_host.ts";
import { logIn, steal } from "../stage/leaky_broker.ts";
import { editConfig, type Stage } from "../stage/stage.ts";
import { load } from "./http_load.ts";
import { signLoad } from "./sign_request.ts";
import {
  createInstalledStage,
  createStage,
  median,
  quantile,
  type Row,
  type SectionContext,
  under,
} from "./harness.ts";

const PULLERS = 200;
const FREEZES = 20;
const MANY = 100_000;
/** Rounds, each with and without the creation of a list. */
const TURNS = 12;
const FEW = 8;
/**
 * With few connections, a request takes less time than a garbage collection (5 to 15 ms). The creation of a list must
 * not make the collection longer. Two runs of the same load differ by this factor.
 */
const MAX_SLOWER = 1.5;
const LOADS = [FEW, 64];
const TURN_SECONDS = 0.5;
/** As in `sign_bench.ts`: before that, parts of the signer are still interpreted. */
const WARM_SECONDS = 12;
const MB = 1024 * 1024;

/** Measures the time from a freeze to 200 hosts, the cost of these hosts, and the cost of a very long list. */
export async function benchKrl({ dir, say }: SectionContext): Promise<readonly Row[]> {
  const rows: Row[] = [];
  await Deno.mkdir(`${dir}/many`);
  await Deno.mkdir(`${dir}/hosts`);
  await Deno.mkdir(`${dir}/login`);
  say(`  ${PULLERS} pullers …`);
  rows.push(...await benchPullers(`${dir}/hosts`));
  say("  a login with a stolen certificate …");
  rows.push(await benchLogin(`${dir}/login`));
  say(`  ${MANY} serials …`);
  rows.push(...await benchManySerials(`${dir}/many`));
  return rows;
}

/** Freezes an end user with a valid certificate. */
async function freezeUser(stage: Stage, value: string): Promise<void> {
  const operator = await stage.signerClient("operator");
  const body = { kind: "end_user", value };
  const { status, text } = await operator.request({ method: "POST", path: "/v1/freeze", body });
  if (status !== 200) throw new Error(`freeze answered ${status}: ${text}`);
}

async function benchPullers(dir: string): Promise<readonly Row[]> {
  await using stage = await createStage(dir);
  const { init } = stage;
  const names = Array.from({ length: PULLERS }, (_, index) => `host-${index}.krl`);
  const callers = Object.fromEntries(names.map((name) => [name, [name]]));
  // The bench adds its own CA, because the key of the installation's CA is for operators.
  const authority = await createCertificateAuthority({ commonName: "bench hosts" });
  await Deno.writeTextFile(init.mtls_ca, authority.certPem, { append: true });
  await editConfig(init.signer_config, [{ path: ["krl_callers"], value: callers }]);
  const signer = await stage.startSigner();
  const { port, ...identity } = await signLoad(stage);
  // Warm-up: the first requests would distort the cost of a puller.
  await load({ port, ...identity, connections: 16, seconds: 3 });
  const before = await signer.residentBytes();
  const pullers = await Promise.all(names.map(async (name) => {
    const { certPem: cert, keyPem: key } = await issueLeaf(authority, {
      subject: `CN=${name}`,
      usage: "client",
    });
    return new Puller({ port, cert, key, ca: identity.ca });
  }));
  // A few at a time, because the listener limits unauthenticated connections of one address.
  for (let first = 0; first < pullers.length; first += 20) {
    await Promise.all(pullers.slice(first, first + 20).map((puller) => puller.begin()));
  }
  // Includes garbage of the handshakes, which V8 does not collect immediately.
  const after = await signer.residentBytes();
  const times: number[] = [];
  for (let round = 0; round < FREEZES; round++) {
    const user = `user-${round}`;
    await load({
      port,
      ...identity,
      body: identity.body.replace('"bench"', `"${user}"`),
      connections: 1,
      seconds: 0.01,
    });
    const news = pullers.map((puller) => puller.news());
    const from = performance.now();
    const answered = freezeUser(stage, user);
    for (const arrived of await Promise.all(news)) times.push(arrived - from);
    await answered;
  }
  for (const puller of pullers) puller.close();
  times.sort((a, b) => a - b);
  const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)];
  const cost = (after - before) / MB;
  return [{
    what: `freeze until ${PULLERS} waiting pullers have the list`,
    measured: `p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`,
    baseline: "",
    ratio: "",
    target: "p50 < 50 ms, p99 < 500 ms",
    met: p50 < 50 && p99 < 500,
  }, {
    what: `${PULLERS} idle pullers in the signer's memory`,
    measured: `${cost.toFixed(1)} MB`,
    baseline: `${(before / MB).toFixed(0)} MB without`,
    ratio: "",
    target: "<= 20 MB",
    met: cost <= 20,
  }];
}

/** A host that waits for the next list, without the time to install it. */
class Puller {
  readonly #agent: Agent;
  readonly #port: number;
  #after = 0;
  #news = Promise.withResolvers<number>();
  #closed = false;

  constructor({ port, ...identity }: { port: number; cert: string; key: string; ca: string }) {
    this.#port = port;
    this.#agent = new Agent({ ...identity, keepAlive: true, maxSockets: 1 });
  }

  /** Fetches the first list, then waits for each next list. */
  async begin(): Promise<void> {
    await this.#pull();
    void this.#wait();
  }

  /** Resolves when the next list has arrived. */
  news(): Promise<number> {
    return this.#news.promise;
  }

  close(): void {
    this.#closed = true;
    this.#agent.destroy();
  }

  async #wait(): Promise<void> {
    while (!this.#closed) {
      const isNews = await this.#pull().catch(() => false);
      if (!isNews) continue;
      this.#news.resolve(performance.now());
      this.#news = Promise.withResolvers<number>();
    }
  }

  #pull(): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const path = `/v1/krl?after=${this.#after}`;
    request({ host: "127.0.0.1", port: this.#port, path, agent: this.#agent }, (response) => {
      response.on("data", () => {}).on("end", () => {
        const version = Number(response.headers["x-krl-version"] ?? 0);
        if (version > 0) this.#after = version;
        resolve(version > 0);
      }).on("error", reject);
    }).on("error", reject).end();
    return promise;
  }
}

async function benchLogin(dir: string): Promise<Row> {
  await using stage = await createStage(dir, { targetKind: "openssh", revokedKeys: true });
  await KrlHost.enrol(stage);
  await stage.startSigner();
  await using _host = await KrlHost.start(stage);
  const times: number[] = [];
  for (const user of ["mallory-1", "mallory-2", "mallory-3"]) {
    const stolen = await steal(stage, user);
    if (await logIn(stage, stolen) !== "in") throw new Error("sshd rejects a valid certificate");
    const from = performance.now();
    await freezeUser(stage, user);
    // The measured time ends at the first login that sshd rejects.
    while (await logIn(stage, stolen) === "in");
    times.push(performance.now() - from);
  }
  return {
    what: "freeze until sshd refuses a stolen certificate, logins included",
    measured: `${median(times).toFixed(0)} ms, at most ${Math.max(...times).toFixed(0)} ms`,
    baseline: "",
    ratio: "",
    target: "< 2000 ms",
    met: Math.max(...times) < 2000,
  };
}

async function benchManySerials(dir: string): Promise<readonly Row[]> {
  await using stage = await createInstalledStage(dir, ["signer"]);
  const users = Array.from({ length: LOADS.length * TURNS }, (_, turn) => `turn-${turn}`);
  await storeCertificates(`${stage.init.folder}/state/signer.db`, ["bulk", ...users]);
  await stage.startSigner();
  const options = { ...await signLoad(stage), seconds: TURN_SECONDS };
  await load({ ...options, connections: FEW, seconds: WARM_SECONDS });
  const first = load({ ...options, connections: FEW });
  const from = performance.now();
  await freezeUser(stage, "bulk");
  const took = performance.now() - from;
  await first;
  const rows: Row[] = [];
  for (const connections of LOADS) {
    rows.push(await benchMeanwhile(stage, connections, users.splice(0, TURNS)));
  }
  return [under(`list of ${MANY} serials made, under load`, took, 1000), ...rows];
}

/** Sends sign requests, with and without the creation of one list for each user. */
async function benchMeanwhile(stage: Stage, connections: number, users: readonly string[]): Promise<Row> {
  const options = { ...await signLoad(stage), connections, seconds: TURN_SECONDS };
  const [usual, meanwhile]: [number[], number[]] = [[], []];
  await load({ ...options, seconds: 2 });
  // In turns, so that other load on the machine slows both. Each freeze creates the whole list again.
  for (const user of users) {
    usual.push(...(await load(options)).latencies);
    const [{ latencies }] = await Promise.all([load(options), freezeUser(stage, user)]);
    meanwhile.push(...latencies);
  }
  const [p50, p99] = quantiles(meanwhile);
  const [usualP50, usualP99] = quantiles(usual);
  const isFew = connections === FEW;
  return {
    what: `p99 of sign, ${connections} connections, while such a list is made, ${users.length} times`,
    measured: `${p99.toFixed(1)} ms`,
    baseline: `p50 ${p50.toFixed(1)} ms; without: p99 ${usualP99.toFixed(1)}, p50 ${usualP50.toFixed(1)} ms`,
    ratio: `${(p99 / p50).toFixed(1)}; without ${(usualP99 / usualP50).toFixed(1)}`,
    target: isFew ? `<= ${MAX_SLOWER} of that without` : "<= 3",
    met: isFew ? p99 <= MAX_SLOWER * usualP99 : p99 <= 3 * p50,
  };
}

function quantiles(times: number[]): readonly [number, number] {
  times.sort((a, b) => a - b);
  return [quantile(times, 0.5), quantile(times, 0.99)];
}

/** Stores valid certificates for the signer's start: many of the first end user, one of each other user. */
async function storeCertificates(path: string, [endUser = "", ...others]: readonly string[]): Promise<void> {
  const store = openSqliteStore({ path, warn: () => {} });
  const now = Math.floor(Date.now() / 1000);
  const holder = { peer: "b", caller: "b", host: "web01", role: "target", elevationPrefix: "", pty: false };
  const batchOf = (endUser: string, size: number, end: number) => ({
    holder: { ...holder, endUser },
    issuedAt: now,
    validBefore: now + 600 + end,
    serials: [...crypto.getRandomValues(new BigUint64Array(size))],
  });
  await store.addCertificates([
    ...Array.from({ length: MANY / 1000 }, (_, batch) => batchOf(endUser, 1000, batch)),
    ...others.map((user) => batchOf(user, 1, 0)),
  ]);
  await store.close();
}
