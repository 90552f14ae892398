import assert from "node:assert/strict";
import { CONFIG, snapshotOf } from "../testing/memory_signer.ts";

Deno.test("HostLists.answer() answers callers without end, each with its own", () => {
  const lists = snapshotOf(CONFIG).hostLists;
  const tag = lists.answer("broker-1", null).headers.get("etag");
  const none = lists.answer("stranger", null).headers.get("etag");
  assert.notEqual(tag, none);
  for (let n = 0; n < 3000; n++) assert.equal(lists.answer(`stranger-${n}`, none).status, 304);
  assert.equal(lists.answer("broker-1", tag).status, 304);
  assert.equal(lists.answer("broker-1", none).status, 200);
});
