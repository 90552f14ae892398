import assert from "node:assert/strict";
import { whyUnsafe, whyUnsafeFolder } from "./write.ts";

const SELF = 1000;
const OTHER = 1001;
const NOBODY = 65_534;

const part = (facts: { uid?: number; mode?: number; isLink?: boolean }) => ({
  path: "/srv/x",
  uid: SELF,
  mode: 0o40755,
  isLink: false,
  ...facts,
});

Deno.test.each<
  { name: string; uid?: number; mode?: number; isLink?: boolean; below?: RegExp; self?: RegExp }
>([
  { name: "one's own folder" },
  { name: "a private folder of one's own", mode: 0o40700 },
  { name: "a folder of root", uid: 0 },
  { name: "a folder of another user", uid: OTHER, below: /another user \(uid 1001\)/, self: /another user/ },
  {
    name: "a sticky folder of another user",
    uid: OTHER,
    mode: 0o41777,
    below: /another user/,
    self: /another user/,
  },
  { name: "a folder that the group may write to", mode: 0o40775, below: /mode 0775/, self: /mode 0775/ },
  { name: "a folder that everybody may write to", mode: 0o40777, below: /mode 0777/, self: /mode 0777/ },
  {
    name: "a folder of root that the group may write to",
    uid: 0,
    mode: 0o42775,
    below: /2775/,
    self: /2775/,
  },
  {
    name: "a sticky folder, as /tmp is",
    uid: 0,
    mode: 0o41777,
    self: /other users may write .* \(mode 1777\)/,
  },
  { name: "a link of root's", uid: 0, mode: 0o120777, isLink: true, self: /is a link/ },
  { name: "a link of one's own", mode: 0o120777, isLink: true, self: /is a link/ },
  {
    name: "a link of another user's",
    uid: OTHER,
    mode: 0o120777,
    isLink: true,
    below: /another user/,
    self: /is a link/,
  },
])("a set-up in or below $name", (row) => {
  const trusted = { self: SELF, root: 0 };
  const check = (why: string | undefined, expected: RegExp | undefined) =>
    expected === undefined ? assert.equal(why, undefined) : assert.match(why ?? "", expected);
  check(whyUnsafe(part(row), trusted), row.below);
  check(whyUnsafeFolder(part(row), trusted), row.self);
});

Deno.test("whoever owns the root of the file system is trusted, as in a container", () => {
  const facts = part({ uid: NOBODY });
  assert.equal(whyUnsafe(facts, { self: SELF, root: NOBODY }), undefined);
  assert.match(whyUnsafe(facts, { self: SELF, root: 0 }) ?? "", /another user/);
});
