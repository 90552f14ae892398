import assert from "node:assert/strict";
import { readBearer } from "./bearer.ts";

const URL = "https://localhost/mcp";

Deno.test.each([
  { name: "the usual form", value: "Bearer abc.def.ghi" },
  { name: "a scheme in lower case", value: "bearer abc.def.ghi" },
  { name: "a scheme in upper case", value: "BEARER abc.def.ghi" },
  { name: "several blanks and a tab between", value: "Bearer  \tabc.def.ghi" },
])("readBearer() takes $name", ({ value }) => {
  const headers = new Headers({ authorization: value });
  assert.deepEqual(readBearer({ headers, url: URL }), { kind: "token", token: "abc.def.ghi" });
});

Deno.test.each<{ name: string; headers: [string, string][]; url?: string }>([
  { name: "no header", headers: [] },
  { name: "an empty header", headers: [["authorization", ""]] },
  { name: "the scheme alone", headers: [["authorization", "Bearer"]] },
  { name: "the token alone", headers: [["authorization", "abc.def.ghi"]] },
  { name: "another scheme", headers: [["authorization", "Basic YTpi"]] },
  { name: "a scheme that only begins alike", headers: [["authorization", "BearerX abc"]] },
  { name: "three fields", headers: [["authorization", "Bearer abc def"]] },
  { name: "two headers", headers: [["authorization", "Bearer abc"], ["authorization", "Bearer def"]] },
  { name: "two headers, the first empty", headers: [["authorization", ""], ["authorization", "Bearer def"]] },
  { name: "a token in another header", headers: [["x-access-token", "abc"], ["cookie", "access_token=abc"]] },
  { name: "a token in the URL", headers: [], url: `${URL}?access_token=abc` },
])("readBearer() finds no token in $name", ({ headers, url = URL }) => {
  assert.deepEqual(readBearer({ headers: new Headers(headers), url }), { kind: "missing" });
});

Deno.test("readBearer() refuses a token that stands in the URL as well", () => {
  const headers = new Headers({ authorization: "Bearer abc" });
  assert.deepEqual(readBearer({ headers, url: `${URL}?access_token=abc` }), { kind: "in_url" });
});
