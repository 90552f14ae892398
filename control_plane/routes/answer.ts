import { stringifyJson } from "@gateway/shared/json";

/** A JSON answer; 64-bit serials stay exact. */
export function answer(body: unknown, status = 200): Response {
  return jsonAnswer(`${stringifyJson(body)}\n`, { status });
}

/** Likewise of a text that is JSON already. */
export function jsonAnswer(
  text: string,
  { status = 200, headers = {} }: {
    readonly status?: number;
    /** Beside those that every answer has, or in their place. */
    readonly headers?: Readonly<Record<string, string>>;
  },
): Response {
  return new Response(text, {
    status,
    headers: {
      "content-type": "application/json",
      // A browser brings an approver's certificate to whatever page asks for this as a script or a style sheet.
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
      ...headers,
    },
  });
}
