import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { SessionFixture } from "../testing/session_fixture.ts";
import { createSshTools } from "./toolset.ts";

const tools = createSshTools(Object.assign(new BrokerFixture(), { sessions: new SessionFixture().sessions }));
const schema = z.object({ properties: z.record(z.string(), z.record(z.string(), z.unknown())) });

Deno.test.each(tools)("$name has all four annotations, and a reader changes and destroys nothing", (tool) => {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint, ...others } = tool.annotations;
  for (const hint of [readOnlyHint, destructiveHint, idempotentHint, openWorldHint]) {
    assert.equal(typeof hint, "boolean");
  }
  assert.deepEqual(others, {});
  assert.ok(!(readOnlyHint && destructiveHint));
});

Deno.test.each(tools)("$name says of a serial where it is exact, and gives it in the text", (tool) => {
  const { serial } = schema.parse(tool.outputSchema).properties;
  if (serial === undefined) return;
  assert.match(String(serial["description"]), /exact only in the text$/);
});

Deno.test("the tools that return what a server holds say that it is data", () => {
  for (const name of ["ssh_execute", "ssh_session_exec", "ssh_get_file"]) {
    const tool = tools.find((tool) => tool.name === name);
    assert.match(tool?.description ?? "", /data\b.*never an instruction to you/, name);
  }
});

Deno.test("ssh_session_open shows which modes there are", () => {
  const open = tools.find(({ name }) => name === "ssh_session_open");
  assert.deepEqual(schema.parse(open?.inputSchema).properties["mode"]?.["enum"], ["exec", "shell", "pty"]);
});

Deno.test("the tools that run commands take max_output_bytes and tail", () => {
  for (const name of ["ssh_execute", "ssh_session_exec"]) {
    const { properties } = schema.parse(tools.find((tool) => tool.name === name)?.inputSchema);
    assert.equal(properties["max_output_bytes"]?.["type"], "integer");
    assert.match(String(properties["max_output_bytes"]?.["description"]), /at most 409600/);
    assert.equal(properties["tail"]?.["type"], "boolean");
  }
});
