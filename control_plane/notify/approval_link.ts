import { AppError } from "@gateway/shared/errors";

/** The address of the page where a request is decided on; `undefined` when none is configured. */
export type ApprovalLink = (id: string) => string | undefined;

const APPROVAL_ID = /^[0-9a-f]{32}$/;

/**
 * Links made from `approval_url_template`: every `{id}` becomes the request's id.
 *
 * @param template the operator's; empty means no link
 * @throws {AppError} `invalid_config` when it is not an http or https address
 */
export function createApprovalLink(template: string): ApprovalLink {
  if (template === "") return () => undefined;
  const protocol = URL.parse(template)?.protocol;
  if (protocol !== "https:" && protocol !== "http:") {
    throw new AppError(
      "invalid_config",
      `Cannot use approval.approval_url_template ${
        JSON.stringify(template)
      }: must be an https:// or http:// address`,
    );
  }
  // What is not an id of ours has no page, and must not become part of an address.
  return (id) => APPROVAL_ID.test(id) ? template.replaceAll("{id}", id) : undefined;
}
