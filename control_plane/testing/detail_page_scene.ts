import { type DetailPage, renderDetailPage } from "../pages/detail_page.tsx";
import { SCRIPT, STYLE } from "../pages/page.tsx";
import { signRequest } from "@gateway/shared/wire";
import { readHtml } from "@gateway/shared/testing";
import { READ_AT, recordOf } from "./sample_record.ts";

/** A request for a certificate for one command. */
export const ASKED = signRequest.parse({ host: "web01", role: "target", purpose: "oneshot" });
export const DECIDED = { decided_by: "approver-2", decided_at: "2026-01-02T03:04:35.000Z" } as const;

/** Renders the page of an approval and reads it. */
export function render(page: Partial<DetailPage> = {}): ReturnType<typeof readHtml> {
  return readHtml(
    renderDetailPage({ approval: recordOf(), approver: "approver-1", now: READ_AT, ...page }),
    [STYLE, SCRIPT],
  );
}

export type Elements = ReturnType<typeof readHtml>;

/** The text of the section with the given heading. */
export const textOf = (elements: Elements, id: string): string =>
  elements.find(({ attributes }) => attributes["aria-labelledby"] === id)?.text ?? "";
