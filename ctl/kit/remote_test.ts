import assert from "node:assert/strict";
import { joinPath } from "./remote.ts";

Deno.test("joinPath() encodes each segment for itself", () => {
  assert.equal(joinPath("v1", "hosts", "a/b c?#%ü"), "/v1/hosts/a%2Fb%20c%3F%23%25%C3%BC");
  assert.equal(joinPath("..."), "/...");
  assert.equal(joinPath("\ud800"), "/%EF%BF%BD");
});

Deno.test("joinPath() refuses segments that a URL would resolve away", () => {
  for (const segment of ["", ".", ".."]) {
    assert.throws(() => joinPath("v1", segment, "allow"), { code: "invalid_request" }, segment);
  }
});
