import type { ApprovalDraft } from "../../control_plane/approvals/approval.ts";
import { startControlPlane } from "../../control_plane/testing/memory_control_plane.ts";
import type { BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { draftOf } from "../../control_plane/testing/sample_approval.ts";
import { type Identity, issue, startServer } from "../adapters/mtls_fixture.ts";
import { hurry, TestBrowser } from "./chromium.ts";

/** The pages over a real listener, with approvals of any content and a stopped clock. */
export async function startPages(template?: string) {
  const starting = Promise.withResolvers<Awaited<ReturnType<typeof startControlPlane>>>();
  const server = await startServer(async (request, { caller }) => {
    const { text, status, headers } = await (await starting.promise).send(request, caller);
    return new Response(text, { status, headers });
  });
  const controlPlane = await startControlPlane({
    approval: {
      callers: ["approver-1", "approver-2", "both"],
      timeout_seconds: 120,
      max_pending_per_caller: 500,
      approval_url_template: template ?? `${server.url}/ui/approvals/{id}`,
    },
  });
  starting.resolve(controlPlane);
  return {
    origin: server.url,
    controlPlane,
    /** Parks a request and returns its ID. */
    async park(fields: Partial<ApprovalDraft> = {}): Promise<string> {
      const outcome = await controlPlane.registry.create(draftOf(fields));
      if (outcome.kind !== "parked") throw new Error(`the request was not parked: ${outcome.kind}`);
      return outcome.approval.id;
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

export function identityOf(name: string): Promise<Identity> {
  return issue({ subject: `CN=${name}`, usage: "client" });
}

type OpenPages = Awaited<ReturnType<typeof startPages>> & {
  readonly browser: TestBrowser;
  readonly session: BrowserContext;
  readonly page: Page;
};

/** The viewer of the pages, by default `approver-1`, and the configured address. */
interface PageOptions extends BrowserContextOptions {
  readonly as?: string;
  readonly template?: string;
}

export async function onPage(
  { as = "approver-1", template, ...options }: PageOptions,
  test: (scene: OpenPages) => Promise<void>,
): Promise<void> {
  await using pages = await startPages(template);
  await using browser = await TestBrowser.start();
  await using session = await browser.session(pages.origin, await identityOf(as), options);
  await hurry(session);
  await test({ ...pages, browser, session, page: await session.newPage() });
}
