import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import type { HostsResponse } from "@gateway/shared/wire";
import { Inventory } from "./inventory.ts";

const host = { addr: "10.0.0.1:22", user: "deploy", host_key: "k" };

/** A fetch whose answers the test gives one by one. */
class ScriptedFetch {
  readonly #waiting: PromiseWithResolvers<HostsResponse>[] = [];
  calls = 0;

  readonly fetch = (): Promise<HostsResponse> => {
    this.calls += 1;
    const answer = Promise.withResolvers<HostsResponse>();
    this.#waiting.push(answer);
    return answer.promise;
  };

  answer(hosts: HostsResponse): void {
    this.#waiting.shift()?.resolve(hosts);
  }

  fail(message: string): void {
    this.#waiting.shift()?.reject(new Error(message));
  }
}

Deno.test("Inventory.refresh() shares the fetch under way among calls that overlap", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const refreshes = [view.refresh(), view.refresh(), view.refresh()];
  source.answer({ web01: host });
  for (const hosts of await Promise.all(refreshes)) assert.deepEqual([...hosts.keys()], ["web01"]);
  assert.equal(source.calls, 1);
});

Deno.test("Inventory.refreshAnew() does not take what was asked for before, and shares what comes next", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const before = view.refresh();
  const anew = [view.refreshAnew(), view.refreshAnew()];
  source.answer({ web01: host });
  assert.deepEqual([...(await before).keys()], ["web01"]);
  await Promise.resolve();
  source.answer({ web02: host });
  for (const hosts of await Promise.all(anew)) assert.deepEqual([...hosts.keys()], ["web02"]);
  assert.equal(source.calls, 2);
});

Deno.test("Inventory.refresh() fetches again once the last fetch has ended", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const first = view.refresh();
  source.answer({ web01: host });
  await first;
  const second = view.refresh();
  source.answer({ web02: host });
  assert.deepEqual([...(await second).keys()], ["web02"]);
  assert.equal(source.calls, 2);
});

Deno.test("Inventory.refresh() is the same map for the same list", async () => {
  const list = { web01: host };
  const lists: HostsResponse[] = [list, list, { web02: host }, list];
  const view = new Inventory(() => Promise.resolve(lists.shift() ?? {}));
  const first = await view.refresh();
  assert.equal(await view.refresh(), first);
  assert.deepEqual([...(await view.refresh()).keys()], ["web02"]);
  assert.deepEqual([...(await view.refresh()).keys()], ["web01"]);
});

Deno.test("Inventory.refresh() fails every call that shares a failed fetch, and the view stays", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const first = view.refresh();
  source.answer({ web01: host });
  await first;
  const failing = [view.refresh(), view.refresh()];
  source.fail("down");
  for (const refresh of failing) await assert.rejects(refresh, { message: "down" });
  assert.deepEqual([...(await view.current()).keys()], ["web01"]);
  const retry = view.refresh();
  source.answer({});
  assert.equal((await retry).size, 0);
});

Deno.test("Inventory.current() waits for the first list, and asks no more after it", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const current = view.current();
  source.answer({ web01: host });
  assert.equal((await current).size, 1);
  assert.equal((await view.current()).size, 1);
  assert.equal(source.calls, 1);
});

Deno.test("Inventory.refreshEvery() refreshes after each pause and survives a failure", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const errors: unknown[] = [];
  let fetches = 0;
  const view = new Inventory(() => {
    fetches += 1;
    return fetches === 2 ? Promise.reject(new Error("down")) : Promise.resolve({ [`web0${fetches}`]: host });
  });
  const refreshing = view.refreshEvery({
    clock,
    seconds: 30,
    signal: stop.signal,
    onError: (error) => errors.push(error),
  });
  await clock.advance(29_999);
  assert.equal(fetches, 0);
  await clock.advance(1);
  assert.equal(fetches, 1);
  await clock.advance(30_000);
  assert.equal(errors.length, 1);
  assert.deepEqual([...(await view.current()).keys()], ["web01"], "the last good list stays");
  await clock.advance(30_000);
  assert.deepEqual([...(await view.current()).keys()], ["web03"]);
  stop.abort();
  await refreshing;
});
