import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { createApprovalLink } from "./teams.ts";
import { APPROVAL_ID } from "./testing/sample_approval.ts";

Deno.test.each([
  {
    name: "puts the id everywhere",
    template: "https://cp.example/{id}?a={id}",
    expected: `https://cp.example/${APPROVAL_ID}?a=${APPROVAL_ID}`,
  },
  {
    name: "leaves a template without id",
    template: "https://cp.example/ui",
    expected: "https://cp.example/ui",
  },
  { name: "gives none without template", template: "", expected: undefined },
])("createApprovalLink() $name", ({ template, expected }) => {
  assert.equal(createApprovalLink(template)(APPROVAL_ID), expected);
});

Deno.test.each(["", "../../evil", "0123456789ABCDEF0123456789ABCDEF", `${APPROVAL_ID}0`, `${APPROVAL_ID}\n`])(
  "createApprovalLink() makes no link of what is not an id: %o",
  (id) => {
    assert.equal(createApprovalLink("https://cp.example/{id}")(id), undefined);
  },
);

Deno.test.each(["javascript:alert(1)//{id}", "cp.example/{id}", "/ui/approvals/{id}", "file:///{id}"])(
  "createApprovalLink() refuses the template %s",
  (template) => {
    assert.throws(
      () => createApprovalLink(template),
      (error) =>
        error instanceof AppError && error.code === "invalid_config" &&
        error.message.includes("approval.approval_url_template"),
    );
  },
);
