import { AppError } from "@gateway/shared/errors";
import type { AskedAction } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";

/**
 * Reads an action as it is written in records: `get deployments.apps prod/api`, `list pods prod`, `get nodes -/n1`. The
 * group may be left out, and a list needs no place.
 *
 * @throws {AppError} `invalid_request` for what can't be read; whether there is such an action is decided later
 */
export function readAction(text: string): AskedAction {
  const [verb = "", whole = "", place = "-", ...more] = text.trim().split(/\s+/);
  const [namespace = "", name = "-", ...rest] = place.split("/");
  if (whole === "" || more.length > 0 || rest.length > 0) {
    throw new AppError(
      "invalid_request",
      `Cannot read action ${quoteText(text)}: expected "<verb> <resource>[.<group>] [<namespace>[/<name>]]"`,
    );
  }
  const [resource = "", ...group] = whole.split(".");
  return { verb, resource, group: group.join("."), namespace: orNone(namespace), name: orNone(name) };
}

function orNone(part: string): string {
  return part === "-" ? "" : part;
}
