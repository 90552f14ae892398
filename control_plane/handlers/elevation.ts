/** What a request runs as beyond the login on the host, as records have it: `sudo:<account>`, or empty. */
export function elevationOf(
  { sudo, sudoUser }: { readonly sudo: boolean; readonly sudoUser: string },
): string {
  return sudo ? `sudo:${sudoUser === "" ? "root" : sudoUser}` : "";
}
