import assert from "node:assert/strict";
import fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import { ASKED, DECIDED, type Elements, render, textOf } from "../testing/detail_page_scene.ts";
import { HOSTILE, READ_AT, recordOf } from "../testing/sample_record.ts";
import { renderDetailPage } from "./detail_page.tsx";
import { segmentText } from "@gateway/shared/ui";

Deno.test("renderDetailPage() warns of invisible characters in a command with name and count", () => {
  const warning = render({ approval: recordOf({ command: "ls \u202ex\u202e\x1b c\u0430t" }) })
    .find(({ attributes }) => attributes["class"] === "warning")?.text;
  assert.match(warning ?? "", /U\+202E RIGHT-TO-LEFT OVERRIDE, 2 times/);
  assert.match(warning ?? "", /U\+001B ESCAPE, once/);
  assert.match(warning ?? "", /1 non-ASCII character that may look like another/);
  assert.ok(render().every(({ attributes }) => attributes["class"] !== "warning"));
});

Deno.test("renderDetailPage() shows a command of 60 KiB completely with its length", () => {
  const command = "echo 1234567890 # a line of a script that is far too long\n".repeat(1059);
  const section = textOf(render({ approval: recordOf({ command }) }), "command");
  assert.ok(section.includes(command.replaceAll("\n", "\\x0a\n").trimEnd()));
  assert.match(section, /61,422 characters in 1,060 lines. Scroll to read all of it./);
});

Deno.test("renderDetailPage() limits the page size for the worst command of 60 KiB", () => {
  const page = renderDetailPage({
    approval: recordOf({ command: "\x01\x02".repeat(30_720) }),
    approver: "a",
    now: READ_AT,
  });
  assert.ok(page.length < 6_000_000, String(page.length));
});

const FIELDS = [
  "caller",
  "end_user",
  "host",
  "command",
  "sudo_user",
  "decided_by",
  "rule",
  "id",
  "account",
  "addr",
  "reason",
  "comment",
] as const;

Deno.test.each(HOSTILE)("renderDetailPage() escapes $name in every field", ({ text }) => {
  for (const field of FIELDS) {
    for (const status of ["pending", "approved"] as const) {
      const approval = recordOf({ sudo: true, status, end_user: "y", decided_by: "z", [field]: text });
      const elements = render({ approval, problem: text });
      assertHarmless(elements);
      if ((field !== "decided_by" && field !== "comment") || status === "approved") {
        assert.ok(elements.some((element) => element.tag === "bdo" && element.text === shownAs(text)), field);
      }
    }
  }
});

Deno.test.each(HOSTILE)("renderDetailPage() escapes $name in the request", ({ text }) => {
  assertHarmless(render({
    approver: text,
    approval: recordOf({
      anomalies: [text, `new-host:${text}`],
      access: [text, "file_transfer"],
      content_sha256: text,
      content_bytes: 1,
      content_head: text,
      joined: [text],
    }),
    asked: { ...ASKED, session_mode: text, target_type: text, purpose: text, end_user_groups: [text] },
    entered: { ttl: text, amount: text, unit: text, comment: text },
  }));
});

Deno.test.each(HOSTILE)("renderDetailPage() escapes $name in the next request", ({ text }) => {
  const decided = recordOf({ ...DECIDED, status: "denied" });
  for (const field of ["host", "command", "id"] as const) {
    const elements = render({ approval: decided, next: recordOf({ [field]: text }) });
    assertHarmless(elements);
    assert.ok(elements.some(({ attributes }) => attributes["id"] === "next"), field);
  }
});

Deno.test("renderDetailPage() escapes any text in every field (property)", () => {
  const texts = fc.string({ unit: anyCharacter(fc), maxLength: 40 });
  const fields = fc.record(Object.fromEntries(FIELDS.map((field) => [field, texts])));
  fc.assert(fc.property(fields, texts, (hostile, text) => {
    const approval = recordOf({ sudo: true, ...hostile, anomalies: [text] });
    const elements = render({ approval, approver: text, problem: text });
    assertHarmless(elements);
    assert.ok(
      elements.some((element) => element.tag === "code" && element.text === shownAs(approval.command)) ||
        approval.command === "",
    );
  }));
});

const TAGS =
  "html head meta title style body a header div p nav b bdo q span mark main h1 h2 section code ul li dl dt dd time form button fieldset legend label input select option footer script svg path circle polyline"
    .split(" ");
const ATTRIBUTES =
  "action aria-describedby aria-hidden aria-label aria-labelledby autocomplete charset checked class content data-api data-news data-now data-refresh data-since data-state data-until datetime dir disabled hidden href id inputmode lang maxlength method min name novalidate placeholder role selected step tabindex title type value cx cy d points r viewBox"
    .split(" ");

/** Asserts that the page has only our elements. The reader has already rejected HTML that we do not write. */
function assertHarmless(elements: Elements): void {
  for (const { tag, attributes } of elements) {
    assert.ok(TAGS.includes(tag), tag);
    for (const [name, value] of Object.entries(attributes)) {
      assert.ok(ATTRIBUTES.includes(name), name);
      if (name === "href") assert.match(value, /^(?:#main|\/ui\/approvals(?:\/[^/?#"<>\\]*)?)$/);
      if (name === "action" || name === "data-api") {
        assert.match(value, /^\/ui\/approvals\/[^/?#"<>\\]*$/);
      }
    }
  }
  assert.equal(elements.filter(({ tag }) => tag === "script").length, 1);
  assert.equal(elements.filter(({ tag }) => tag === "form").length <= 1, true);
}

/** A text as a page shows it. */
function shownAs(text: string): string {
  return segmentText(text).map((segment) => {
    if (segment.kind !== "odd") return segment.text;
    const { character, count } = segment;
    const code = character.codePointAt(0) ?? 0;
    const hex = code.toString(16);
    const escape = code < 0x100 && code !== 0xad ? `\\x${hex.padStart(2, "0")}` : `\\u{${hex}}`;
    return `${character === " " ? "␣" : escape}${count > 1 ? ` ×${count}` : ""}${
      character === "\n" ? "\n" : ""
    }`;
  }).join("");
}
