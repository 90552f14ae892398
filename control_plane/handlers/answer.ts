import { stringifyJson } from "@gateway/shared/json";

/** A JSON answer; 64-bit serials stay exact. */
export function answer(body: unknown, status = 200): Response {
  return new Response(`${stringifyJson(body)}\n`, {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store" },
  });
}
