/**
 * The account that a request changes to by sudo, for comparing and for records.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { canonicalSudoUser, elevationLabel } from "@gateway/shared/policy/sudo_user";
 *
 * assert.equal(canonicalSudoUser(true, ""), "root");
 * assert.equal(elevationLabel(true, "deploy"), "sudo:deploy");
 * ```
 *
 * @module
 */

/** The account that sudo changes to, in one spelling: empty without sudo, `root` where none is named. */
export function canonicalSudoUser(sudo: boolean | undefined, sudoUser: string | undefined): string {
  return sudo === true ? sudoUser || "root" : "";
}

/** What a request runs as beyond the login on the host, as records have it: `sudo:<account>`, or empty. */
export function elevationLabel(sudo: boolean | undefined, sudoUser: string | undefined): string {
  const user = canonicalSudoUser(sudo, sudoUser);
  return user === "" ? "" : `sudo:${user}`;
}
