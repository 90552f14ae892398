import assert from "node:assert/strict";
import { type CloudCase, formatClaim, importCloudCases } from "./incidents.ts";
import { frozenTools } from "./trial.ts";
import { scoreAnswer } from "./score.ts";

/** A case in the shape of the data set. */
function cloudCase(path: string, fault_object: string, root_cause: string): CloudCase {
  return {
    path,
    metadata: JSON.stringify({
      namespace: "boutique",
      query: "Partial Service Unreachability.",
      difficulty: "medium",
      result: { fault_taxonomy: "Admission_Fault", fault_object, root_cause },
    }),
    toolCache: JSON.stringify({
      collection_timestamp: "2025-11-28T15:33:20.568512",
      'GetResources:{"resource_type":"pods","name":"","namespace":"boutique"}':
        "NAME READY STATUS\nfrontend-657 1/1 Running\n",
      'GetResources:{"resource_type":"pods","name":"","namespace":"boutique","output_wide":true}':
        "NAME NODE\nfrontend-657 worker-01\n",
      'GetAppYAML:{"app_name":"adservice"}': "serviceAccountName: adservice-x\n",
    }),
  };
}

const CASES = importCloudCases([
  cloudCase("boutique/admission/1", "app/adservice", "missing_service_account"),
  cloudCase("boutique/admission/2", "namespace/boutique", "namespace_cpu_quota_exceeded"),
]);
const [FIRST = assert.fail()] = CASES;
const ANY = { signal: AbortSignal.any([]), runId: "" };

Deno.test("importCloudCases() reads cases in the shape of Cloud-OpsBench", () => {
  assert.deepEqual(CASES.map(({ id }) => id), ["boutique.admission.1", "boutique.admission.2"]);
  assert.deepEqual(Object.keys(FIRST.components), ["app/adservice", "namespace/boutique"]);
  assert.deepEqual(FIRST.tools.map(({ tool }) => tool), ["GetResources", "GetResources", "GetAppYAML"]);
  assert.equal(FIRST.topic, "Partial Service Unreachability.");
});

Deno.test.each([
  {
    name: "as recorded",
    args: { resource_type: "pods", name: "", namespace: "boutique" },
    found: /1\/1 Running/,
  },
  {
    name: "without empty arguments",
    args: { resource_type: "pods", namespace: "boutique" },
    found: /1\/1 Running/,
  },
  {
    name: "with an option",
    args: { namespace: "boutique", resource_type: "pods", output_wide: true },
    found: /worker-01/,
  },
])("a frozen tool of such a case answers a call $name", async ({ args, found }) => {
  const tool = frozenTools(FIRST.tools).find(({ name }) => name === "GetResources");
  const { ok, text } = await tool?.run(args, ANY) ?? assert.fail();
  assert.equal(ok, true);
  assert.match(text, found);
});

Deno.test("a frozen tool answers nothing that was not recorded, and says what was", async () => {
  const [tool = assert.fail()] = frozenTools(FIRST.tools);
  for (
    const args of [{ resource_type: "secrets" }, {}, null, "pods", { __proto__: { resource_type: "pods" } }]
  ) {
    const { ok, text } = await tool.run(args, ANY);
    assert.equal(ok, false);
    assert.match(text, /nothing was recorded for these arguments; recorded are \{"resource_type":"pods"/);
  }
});

Deno.test("what two cases write in different ways is one thing, and right for both", () => {
  const twins = importCloudCases([
    cloudCase("a/1", "app/AdService", "Missing_Service_Account"),
    cloudCase("a/2", "app/adservice", "missing service account"),
  ]);
  const claim = formatClaim({
    component: "app/adservice",
    fault: "dependency",
    path: ["missing_service_account"],
  });
  assert.deepEqual(twins.map((twin) => scoreAnswer(claim, twin).right), [true, true]);
  assert.deepEqual(Object.keys(twins[0]?.components ?? {}), ["app/AdService"]);
});

Deno.test("an answer to such a case needs the component and the cause, in whatever kind of ours", () => {
  const claim = (component: string, cause: string) =>
    scoreAnswer(formatClaim({ component, fault: "dependency", path: [cause] }), FIRST).right;
  assert.equal(claim("app/adservice", "missing_service_account"), true);
  assert.equal(claim("app/adservice", "missing service account"), true);
  assert.equal(claim("namespace/boutique", "missing_service_account"), false);
  assert.equal(claim("app/adservice", "namespace_cpu_quota_exceeded"), false);
  assert.equal(scoreAnswer("{component: none; fault: none}", FIRST).right, false);
});

Deno.test.each([
  { name: "metadata that is not JSON", change: { metadata: "{" }, reason: /"x": a file of it is not JSON/ },
  {
    name: "metadata without a truth",
    change: { metadata: '{"query":"x"}' },
    reason: /not a case of Cloud-OpsBench/,
  },
  {
    name: "an empty cache",
    change: { toolCache: '{"collection_timestamp":"x"}' },
    reason: /its tool cache is empty/,
  },
  { name: "a cache that is a list", change: { toolCache: "[]" }, reason: /not a case of Cloud-OpsBench/ },
])("importCloudCases() refuses $name", ({ change, reason }) => {
  assert.throws(() => importCloudCases([{ ...cloudCase("x", "a", "b"), ...change }]), reason);
});
