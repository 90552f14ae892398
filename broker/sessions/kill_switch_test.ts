import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { createRedactStreams } from "@gateway/shared/redact";
import { Recorder } from "./recorder.ts";
import { CHAINED_HOSTS, SERIAL } from "../testing/fake_authority.ts";
import { CALLER, SessionFixture } from "../testing/session_fixture.ts";
import type { SessionRegistry } from "./registry.ts";
import { concerns, watchRevocations } from "./kill_switch.ts";

const SESSION = { caller: "Alice@Example", id: "abc", serial: SERIAL, otherSerials: [5n, 6n] };

Deno.test.each<
  [name: string, is: boolean, kind: "caller" | "end_user" | "session_id" | "serial", value: string]
>([
  ["this broker", true, "caller", "broker-1"],
  ["another broker", false, "caller", "broker-2"],
  ["this broker, in other capitals and with a dot", true, "caller", "Broker-1."],
  ["a caller with the end user's name", false, "caller", "Alice@Example"],
  ["its end user", true, "end_user", "Alice@Example"],
  ["its end user in other case and Unicode form", true, "end_user", "\uff21lice@example"],
  ["another end user", false, "end_user", "bob"],
  ["its id", true, "session_id", "abc"],
  ["another id", false, "session_id", "abd"],
  ["a serial of before", true, "serial", "5"],
  ["its serial", true, "serial", "18446744073709551615"],
  ["a serial that is equal only as a number", false, "serial", "18446744073709551614"],
])("concerns() for %s returns %s", (_name, is, kind, value) => {
  assert.equal(concerns({ kind, value }, SESSION, "broker-1"), is);
});

/** A recording whose file accepts all writes, but can be closed only after `disk` resolves. */
function startRecording(disk: Promise<void>, clock = new FakeClock()): Promise<Recorder> {
  const file = { write: () => Promise.resolve(), truncate: () => Promise.resolve(), close: () => disk };
  const header = { sessionId: "a", caller: "alice", host: "web01", serial: SERIAL, startedAt: 0 };
  return Recorder.start({
    file,
    header,
    clock,
    openRedaction: createRedactStreams(undefined),
    strict: false,
    onFailure: () => {},
  });
}

/** A signer with scripted freezes, and a watch that polls it. */
class Scene {
  readonly broker = new SessionFixture();
  readonly clock = new FakeClock();
  frozen: unknown = [];
  status = 200;
  polls = 0;
  /** The poll at the start is the first one. */
  polled = -1;
  readonly errors: unknown[] = [];
  /** The serials that the signer was asked to revoke. */
  readonly told: unknown[] = [];
  toldStatus = 200;

  unsupported = 0;

  registry: Pick<SessionRegistry, "kill"> = this.broker.registry;
  readonly #stop = new AbortController();
  #watching: Promise<void> = Promise.resolve();

  async watch(test: (scene: Scene) => Promise<void>): Promise<void> {
    this.#watching = watchRevocations({
      signer: {
        request: ({ path, body }) => {
          if (path === "/v1/revocations/serials") {
            this.told.push(body);
            return Promise.resolve({ status: this.toldStatus, body: {}, text: "no" });
          }
          assert.equal(path, "/v1/revocations");
          this.polls += 1;
          if (this.status === 0) return Promise.reject(new Error("unreachable"));
          return Promise.resolve({ status: this.status, body: this.frozen, text: "no" });
        },
      },
      registry: {
        kill: (...args) => this.registry.kill(...args),
        reject: (reason) => this.broker.registry.reject(reason),
      },
      clock: this.clock,
      seconds: 10,
      brokerCn: "broker-1",
      metrics: {
        counter: () => ({ inc() {} }),
        gauge: () => ({ set: () => void (this.polled += 1), inc() {}, dec() {} }),
      },
      logger: {
        warn: (message, fields) => {
          if (message.startsWith("control plane without /v1/revocations")) this.unsupported += 1;
          else this.errors.push(fields?.["error"]);
        },
      },
    }, this.#stop.signal);
    await test(this);
    await this.stop();
  }

  /** Stops the watch and waits until it has stopped. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }

  freeze(kind: string, value: string) {
    this.frozen = [{ kind, value, frozen_at: "2026-01-02T03:04:05Z", frozen_by: "" }];
  }
}

Deno.test("watchRevocations() polls once per interval and first after one interval", () =>
  new Scene().watch(async (scene) => {
    await scene.clock.advance(9_999);
    assert.equal(scene.polls, 0);
    await scene.clock.advance(1);
    assert.equal(scene.polls, 1);
    await scene.clock.advance(10_000);
    assert.deepEqual([scene.polls, scene.polled], [2, 2]);
  }));

const TOLD = { serials: [SERIAL], reason: "session-frozen" };

Deno.test.each<{ kind: string; value: (id: string) => string; told: readonly unknown[] }>([
  { kind: "session_id", value: (id) => id, told: [TOLD] },
  { kind: "serial", value: () => SERIAL.toString(), told: [] },
  { kind: "caller", value: () => "broker-1", told: [] },
])(
  "a session frozen by $kind reports its serial at most once and only if the signer lacks it",
  ({ kind, value, told }) =>
    new Scene().watch(async (scene) => {
      const id = await scene.broker.open();
      scene.freeze(kind, value(id));
      await scene.clock.advance(10_000);
      await scene.clock.advance(10_000);
      assert.deepEqual(scene.told, told);
    }),
);

Deno.test("a freeze also reports replaced certificates that are still valid to the signer", () =>
  new Scene().watch(async (scene) => {
    const { broker } = scene;
    const { answer } = broker.authority;
    let shim = {};
    broker.authority.answer = async (...args) => {
      const given = await answer(...args);
      if (given.kind === "issued") return { ...given, ...shim, serial: SERIAL - BigInt(broker.links.length) };
      return { ...given, ..."shim" in shim ? { envelope: "SEALED" } : {} };
    };
    const id = await broker.open();
    shim = { shim: "gateway-shim" };
    await broker.exec(id);
    scene.freeze("session_id", id);
    await scene.clock.advance(10_000);
    assert.deepEqual(scene.told, [{ ...TOLD, serials: [SERIAL, SERIAL - 1n] }]);
  }));

Deno.test("a freeze also reports current and replaced bastion certificates to the signer", () =>
  new Scene().watch(async (scene) => {
    const { broker } = scene;
    broker.authority.list = () => CHAINED_HOSTS;
    let [issued, shim] = [0n, {}];
    const { answer } = broker.authority;
    broker.authority.answer = async (...args) => {
      const given = await answer(...args);
      if (given.kind !== "issued") return { ...given, ..."shim" in shim ? { envelope: "SEALED" } : {} };
      return { ...given, ...args[0].role === "target" ? shim : {}, serial: issued += 1n };
    };
    const id = await broker.open({ host: "db01" });
    shim = { shim: "gateway-shim" };
    await broker.exec(id);
    scene.freeze("session_id", id);
    await scene.clock.advance(10_000);
    assert.deepEqual(scene.told, [{ ...TOLD, serials: [1n, 2n, 3n, 4n] }]);
  }));

Deno.test("a freeze of a bastion's certificate ends each session through that bastion", () =>
  new Scene().watch(async (scene) => {
    const { broker } = scene;
    broker.authority.list = () => CHAINED_HOSTS;
    const { answer } = broker.authority;
    broker.authority.answer = async (...args) => {
      const given = await answer(...args);
      return given.kind === "issued" && args[0].role === "bastion" ? { ...given, serial: 5n } : given;
    };
    await broker.open({ host: "db01" });
    scene.freeze("serial", "5");
    await scene.clock.advance(10_000);
    assert.equal(broker.registry.size, 0);
  }));

Deno.test("a failed report to the signer is repeated, and a rejected report is only logged", () =>
  new Scene().watch(async (scene) => {
    const id = await scene.broker.open();
    scene.freeze("session_id", id);
    for (const status of [502, 429, 404]) {
      scene.toldStatus = status;
      await scene.clock.advance(10_000);
    }
    await scene.clock.advance(10_000);
    assert.deepEqual([scene.told, scene.errors.length], [[TOLD, TOLD, TOLD], 3]);
  }));

Deno.test("a session that opens during a freeze of its end user is killed on the next poll", () =>
  new Scene().watch(async (scene) => {
    scene.freeze("end_user", "alice");
    await scene.clock.advance(10_000);
    await scene.broker.open();
    await scene.clock.advance(10_000);
    assert.equal(scene.broker.registry.size, 0);
  }));

Deno.test("a recording that cannot be closed does not delay the next freeze (K7)", () =>
  new Scene().watch(async (scene) => {
    const { broker } = scene;
    const disk = Promise.withResolvers<void>();
    broker.startRecording = () => startRecording(disk.promise);
    await broker.open({ mode: "shell" });
    broker.startRecording = undefined;
    await broker.open({ caller: "bob" });
    scene.freeze("end_user", "alice");
    await scene.clock.advance(10_000);
    assert.deepEqual([scene.polled, broker.registry.size], [1, 1]);
    scene.freeze("end_user", "bob");
    await scene.clock.advance(10_000);
    assert.deepEqual([scene.polled, broker.registry.size], [2, 0]);
    const killed = () =>
      broker.log.entries.filter(({ outcome }) => outcome === "session_killed").map(({ caller }) => caller);
    assert.deepEqual(killed(), ["bob"]);

    let stopped = false;
    const stopping = scene.stop().then(() => stopped = true);
    await scene.clock.advance(10_000);
    assert.equal(stopped, false);
    disk.resolve();
    await stopping;
    assert.deepEqual(killed(), ["bob", "alice"]);
  }));

Deno.test("a recording on a dead disk delays the kill record by at most 10 s (K7)", () =>
  new Scene().watch(async (scene) => {
    const { broker } = scene;
    broker.startRecording = () => startRecording(new Promise(() => {}), scene.clock);
    await broker.open({ mode: "shell" });
    scene.freeze("end_user", "alice");
    await scene.clock.advance(10_000);
    await scene.clock.advance(9_999);
    assert.deepEqual(broker.outcomes, ["session_open"]);
    await scene.clock.advance(1);
    const entry = broker.log.entries.at(-1);
    assert.deepEqual([entry?.outcome, entry?.warning, entry?.body_sha256], [
      "session_killed",
      "the recording could not be closed",
      undefined,
    ]);
  }));

Deno.test("a session that is being killed is not killed again on the next poll", () =>
  new Scene().watch(async (scene) => {
    const { broker } = scene;
    const disk = Promise.withResolvers<void>();
    broker.startRecording = () => startRecording(disk.promise);
    await broker.open({ mode: "shell" });
    scene.freeze("end_user", "alice");
    await scene.clock.advance(10_000);
    await scene.clock.advance(10_000);
    disk.resolve();
    await scene.stop();
    assert.deepEqual([scene.polled, broker.outcomes], [2, ["session_open", "session_killed"]]);
  }));

Deno.test("a failed kill is logged and polling continues", () =>
  new Scene().watch(async (scene) => {
    scene.registry = { kill: () => Promise.reject(new Error("broken")) };
    await scene.clock.advance(10_000);
    await scene.clock.advance(10_000);
    assert.deepEqual([scene.polled, scene.errors], [2, [new Error("broken"), new Error("broken")]]);
  }));

Deno.test.each([
  ["no answer", 0, []],
  ["an error status", 503, []],
  ["something else than a list", 200, { entries: [] }],
  ["a kind that it does not know", 200, [{ kind: "host", value: "x", frozen_at: "" }]],
])(
  "a poll with %s counts as failed and kills nothing, and polling continues (K9)",
  (_name, status, frozen) =>
    new Scene().watch(async (scene) => {
      await scene.broker.open();
      scene.status = status;
      scene.frozen = frozen;
      await scene.clock.advance(10_000);
      assert.deepEqual([scene.errors.length, scene.polled, scene.broker.registry.size], [1, 0, 1]);
      scene.status = 200;
      scene.freeze("caller", "broker-1");
      await scene.clock.advance(10_000);
      assert.deepEqual([scene.polled, scene.broker.registry.size], [1, 0]);
    }),
);

Deno.test("after six failed polls sessions reject commands until a poll succeeds", () =>
  new Scene().watch(async (scene) => {
    const { registry } = scene.broker;
    const id = await scene.broker.open();
    scene.status = 503;
    for (let poll = 0; poll < 5; poll++) await scene.clock.advance(10_000);
    assert.ok(registry.findForUse(id, CALLER));
    await scene.clock.advance(10_000);
    for (const use of [() => registry.findForUse(id, CALLER), () => registry.enter("id", "alice")]) {
      assert.throws(use, { code: "state_stale", message: /^freezes unknown after 6 failed polls/ });
    }
    scene.status = 200;
    await scene.clock.advance(10_000);
    assert.ok(registry.findForUse(id, CALLER));
  }));

Deno.test("a control plane without /v1/revocations is reported once and stops no session", () =>
  new Scene().watch(async (scene) => {
    const id = await scene.broker.open();
    scene.status = 404;
    for (let poll = 0; poll < 8; poll++) await scene.clock.advance(10_000);
    assert.deepEqual([scene.unsupported, scene.errors, scene.polled], [1, [], 0]);
    assert.ok(scene.broker.registry.findForUse(id, CALLER));
  }));
