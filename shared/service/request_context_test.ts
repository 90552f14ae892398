import assert from "node:assert/strict";
import { currentRequestId, inRequest, outgoingHeaders, outsideRequests } from "./request_context.ts";

const NEW_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

Deno.test.each([
  { name: "a UUID", id: "5f0f9a3e-7f0c-4f8e-9c4e-0a1b2c3d4e5f" },
  { name: "letters, digits, dot, dash and underscore", id: "Job_7.retry-2" },
  { name: "64 characters", id: "a".repeat(64) },
])("inRequest() keeps an id of $name", async ({ id }) => {
  await inRequest({ name: "POST", id }, (given) => {
    assert.deepEqual([given, currentRequestId(), outgoingHeaders()["x-request-id"]], [id, id, id]);
    return Promise.resolve();
  });
});

Deno.test.each([
  { name: "no id", id: undefined },
  { name: "an empty id", id: "" },
  { name: "65 characters", id: "a".repeat(65) },
  { name: "a blank, which would begin another word of a record", id: "a cmd=ls" },
  { name: "a line break", id: "a\nb" },
  { name: "another line behind it", id: "a\n" },
  { name: "a letter that is not ASCII", id: "é" },
  { name: "an equals sign", id: "rid=1" },
  { name: "several values", id: ["a", "b"] },
])("inRequest() makes a new id for $name", async ({ id }) => {
  await inRequest({ name: "POST", id }, (given) => {
    assert.match(given, NEW_ID);
    return Promise.resolve();
  });
});

Deno.test.each([
  { name: "passes a trace context on", trace: { traceparent: TRACEPARENT, tracestate: "a=1,b=2" } },
  { name: "passes one without state on", trace: { traceparent: TRACEPARENT } },
  { name: "passes no state on without its parent", trace: { tracestate: "a=1" }, passed: {} },
  {
    name: "passes no state on that could begin another header",
    trace: { traceparent: TRACEPARENT, tracestate: "a=1\r\nx: y" },
    passed: { traceparent: TRACEPARENT },
  },
  {
    name: "passes no state on that is longer than 512 characters",
    trace: { traceparent: TRACEPARENT, tracestate: "a".repeat(513) },
    passed: { traceparent: TRACEPARENT },
  },
  {
    name: "passes no zero trace id on",
    trace: { traceparent: `00-${"0".repeat(32)}-b7ad6b7169203331-01` },
    passed: {},
  },
  { name: "passes no capital letters on", trace: { traceparent: TRACEPARENT.toUpperCase() }, passed: {} },
  { name: "passes no version ff on", trace: { traceparent: `ff${TRACEPARENT.slice(2)}` }, passed: {} },
])("inRequest() $name", async ({ trace, passed = trace }) => {
  await inRequest({ name: "POST", id: "r", ...trace }, () => {
    assert.deepEqual(outgoingHeaders(), { ...passed, "x-request-id": "r" });
    return Promise.resolve();
  });
});

Deno.test("inRequest() keeps requests apart that run at the same time", async () => {
  const seen = await Promise.all(["a", "b", "c"].map((id) =>
    inRequest({ name: "POST", id }, async () => {
      await Promise.resolve();
      return currentRequestId();
    })
  ));
  assert.deepEqual(seen, ["a", "b", "c"]);
  assert.deepEqual([currentRequestId(), outgoingHeaders()], [undefined, {}]);
});

Deno.test("outsideRequests() begins what names no request, and leaves the request as it was", async () => {
  await inRequest({ name: "POST", id: "a" }, async () => {
    const later = outsideRequests(async () => {
      await Promise.resolve();
      return [currentRequestId(), outgoingHeaders()];
    });
    assert.equal(currentRequestId(), "a");
    assert.deepEqual(await later, [undefined, {}]);
  });
});
