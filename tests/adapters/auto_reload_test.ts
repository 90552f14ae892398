import assert from "node:assert/strict";
import { type Clock, systemClock, systemElapsed, systemRandom } from "@gateway/shared/clock";
import { startSigner } from "../../signer/serve.ts";
import { freePort } from "../stage/free_port.ts";
import { editConfig } from "../stage/stage.ts";
import { createFolder, run } from "./ctl_fixture.ts";

const RELOAD_SECONDS = 7;

/** The machine's clock, on which the pause between two looks at the config ends when a test says so. */
class LookClock implements Clock {
  #pauseBegins = Promise.withResolvers<void>();
  #pauseEnds = Promise.withResolvers<void>();

  now(): number {
    return systemClock.now();
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms !== RELOAD_SECONDS * 1000) return await systemClock.sleep(ms, signal);
    const pause = this.#pauseEnds = Promise.withResolvers<void>();
    signal?.addEventListener("abort", () => pause.reject(signal.reason), { once: true });
    this.#pauseBegins.resolve();
    await pause.promise;
  }

  /** Has the config looked at; resolves when all that came of it is done. */
  async look(): Promise<void> {
    this.#pauseBegins = Promise.withResolvers();
    this.#pauseEnds.resolve();
    await this.#pauseBegins.promise;
  }
}

/** A signer that looks at its config when it is told to; `onStart` runs between its first read and its first pause. */
async function startWatching(folder: string, onStart: (configPath: string) => void) {
  const at = () => `127.0.0.1:${freePort()}`;
  const result = await run(folder, "init", "--direct", "--listen-signer", at(), "--monitor-signer", at());
  assert.equal(result.exit, 0, result.err);
  const configPath = `${folder}/signer.json`;
  await editConfig(configPath, [{ path: ["auto_reload_seconds"], value: RELOAD_SECONDS }]);
  const clock = new LookClock();
  const messages: string[] = [];
  let isStarting = true;
  const note = (message: string) => {
    messages.push(message);
    // The first thing that is said is what the config that was read is like.
    if (isStarting) onStart(configPath);
    isStarting = false;
  };
  const signer = await startSigner({
    configPath,
    clock,
    elapsed: systemElapsed,
    random: systemRandom,
    readHostname: () => "signer",
    readEnv: () => undefined,
    fetch,
    logger: { info: note, warn: note, error: note },
  });
  return { signer, clock, messages, configPath };
}

const longer = (text: string) => text.replace('"^uptime$"', '"^uptime$", "^id$"');

Deno.test("a config that changes while the signer starts is put in force at the first look", async () => {
  await using folder = await createFolder();
  const { signer, clock, messages } = await startWatching(
    folder.path,
    (path) => Deno.writeTextFileSync(path, longer(Deno.readTextFileSync(path))),
  );
  try {
    await clock.look();
    assert.ok(messages.includes("config reloaded"));
    assert.match(JSON.stringify(signer.state.current.config.command_policies), /\^id\$/);
  } finally {
    await signer.close();
  }
});

Deno.test("a config is not reloaded while it stays as it was, and is when another file of its age takes its place", async () => {
  await using folder = await createFolder();
  const { signer, clock, messages, configPath } = await startWatching(folder.path, () => {});
  const isReloaded = () => messages.includes("config reloaded");
  try {
    await clock.look();
    await clock.look();
    assert.equal(isReloaded(), false);
    const { mtime } = await Deno.stat(configPath);
    const next = `${configPath}.restored`;
    await Deno.writeTextFile(next, longer(await Deno.readTextFile(configPath)));
    await Deno.utime(next, mtime ?? 0, mtime ?? 0);
    await Deno.rename(next, configPath);
    await clock.look();
    assert.ok(isReloaded());
  } finally {
    await signer.close();
  }
});

Deno.test("a config that is gone for a moment does not end the signer, and is loaded when it is back", async () => {
  await using folder = await createFolder();
  const { signer, clock, messages, configPath } = await startWatching(folder.path, () => {});
  try {
    await Deno.rename(configPath, `${configPath}.away`);
    await clock.look();
    assert.ok(messages.includes("the config file could not be reloaded"));
    await Deno.rename(`${configPath}.away`, configPath);
    await clock.look();
    assert.ok(messages.includes("config reloaded"));
  } finally {
    await signer.close();
  }
});
