import { t } from "./language.ts";

/**
 * Sends a request to the server. The message of an error can be shown to the user, and its cause is the status. The
 * server can be newer than the page, so the caller declares the type that it expects.
 */
export async function ask<Answer>(path: string, options: RequestInit = {}): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(t("The server did not answer"));
  }
  if (response.ok) return await response.json();
  const problem = await response.json().catch(() => ({}));
  const { status } = response;
  throw new Error(problem.detail ?? t("The server answered {status}", { status }), { cause: status });
}

export function send<Answer>(path: string, body: unknown): Promise<Answer> {
  return ask(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Sends a form, and files that no field has. Unchecked boxes are sent as false. */
export function sendForm<Answer>(
  path: string,
  form: HTMLFormElement,
  files: readonly { readonly field: string; readonly file: File }[] = [],
): Promise<Answer> {
  const fields = new FormData(form);
  for (const { type, name, checked, files: chosen } of form.querySelectorAll("input")) {
    if (type === "checkbox") fields.set(name, String(checked));
    if (type === "file" && chosen?.length === 0) fields.delete(name);
  }
  for (const { field, file } of files) fields.append(field, file);
  return ask(path, { method: "POST", body: fields });
}
