/**
 * Writes the screenshots of the approval page for the documentation. `deno task docs:pictures`
 *
 * @module
 */
import { subjectOf } from "@gateway/shared/proofs";
import { approverKey, decisionText, sshProof } from "@gateway/shared/testing";
import { draftOf } from "../../control_plane/testing/sample_approval.ts";
import { TestBrowser } from "./chromium.ts";
import { identityOf, startPages } from "./pages_scene.ts";

const [directory = "docs/images"] = Deno.args;

await using pages = await startPages();
const id = await pages.park({
  caller: "broker-2",
  endUser: "agent-7",
  host: "web01",
  command: "systemctl restart nginx",
  sudo: true,
  target: { user: "deploy", addr: "10.0.0.11:22", lifeSeconds: 120 },
  request: {
    ...draftOf().request,
    reason: "nginx serves 502 since the upgrade at 14:05; nginx -t reports no errors",
  },
});
const { request } = draftOf();
const subject = subjectOf(request, "broker-1");
const signed = await pages.park({
  signed: { required: 2, installation: "gateway-lab", subject, approved_by: [] },
});
const proof = sshProof(decisionText(subject, { approver: "ann@example.com" }), approverKey(1));
const verdict = { approver: "approver-2", approve: true, learnTtlSeconds: 0 };
await pages.controlPlane.registry.decide(
  signed,
  { ...verdict, signed: { proofs: [proof], isEnough: false } },
  () => Promise.resolve(),
);
await pages.controlPlane.clock.advance(23_000);
await using browser = await TestBrowser.start();
for (const colorScheme of ["light", "dark"] as const) {
  // The height of the page up to the decision; below it is the random ID of the request.
  const viewport = { width: 1440, height: 980 };
  await using session = await browser.session(pages.origin, await identityOf("approver-1"), {
    ...{ colorScheme, viewport },
  });
  const page = await session.newPage();
  await page.goto(`/ui/approvals/${id}`);
  await page.screenshot({ path: `${directory}/approvals-${colorScheme}.png` });
  await page.goto(`/ui/approvals/${signed}`);
  const clip = { x: 0, y: 0, width: viewport.width, height: 640 };
  await page.screenshot({ path: `${directory}/signed-approval-${colorScheme}.png`, clip });
}
