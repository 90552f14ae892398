import assert from "node:assert/strict";
import { exactMembers } from "./mcp_http.ts";

Deno.test("exactMembers() makes JSON.stringify write 64-bit integers, however deep", () => {
  const value = {
    serial: 18446744073709551615n,
    list: [{ serial: 0n }, null, "1", 2, true],
    absent: undefined,
  };
  assert.equal(
    JSON.stringify(exactMembers(value)),
    '{"serial":18446744073709551615,"list":[{"serial":0},null,"1",2,true]}',
  );
});

Deno.test("exactMembers() takes __proto__ for a member like any other", () => {
  const value = exactMembers(JSON.parse('{"__proto__":{"serial":1}}'));
  assert.equal(JSON.stringify(value), '{"__proto__":{"serial":1}}');
});
