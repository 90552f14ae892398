import { stringifyJson } from "@gateway/shared/json";

/** A JSON answer; 64-bit serials stay exact. */
export function answer(body: unknown, status = 200): Response {
  return new Response(`${stringifyJson(body)}\n`, {
    status,
    headers: {
      "content-type": "application/json",
      // A browser brings an approver's certificate to whatever page asks for this as a script or a style sheet.
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
    },
  });
}
