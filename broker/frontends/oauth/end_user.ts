import type { AuthInfo } from "@modelcontextprotocol/server";
import type { VerifiedEndUser } from "@gateway/shared/oidc";
import type { ToolContext } from "../../tools/tool.ts";

/** Who sends one request, by the token that is in this request. The MCP library hands it on to the tool call. */
export class AuthenticatedEndUser implements AuthInfo {
  /** A secret: passed on to the signer, and to nobody else. */
  readonly token: string;
  readonly clientId = "";
  readonly scopes: string[] = [];
  readonly name: string;
  readonly groups: readonly string[] | null;

  constructor(token: string, { endUser, groups }: Pick<VerifiedEndUser, "endUser" | "groups">) {
    this.token = token;
    this.name = endUser;
    this.groups = groups;
  }
}

/** On whose behalf a call runs. */
export function callerOf(
  authInfo: AuthInfo | undefined,
): Pick<ToolContext, "caller" | "callerGroups" | "bearerToken"> {
  if (!(authInfo instanceof AuthenticatedEndUser)) throw new TypeError("A call came without its end user");
  return { caller: authInfo.name, callerGroups: authInfo.groups, bearerToken: authInfo.token };
}
