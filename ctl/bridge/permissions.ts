import type { UsedFile } from "@gateway/shared/files";
import { mergeSets, type PermissionSet, urlPermissions } from "@gateway/shared/permissions";
import { type BridgeSettings, ENV_NAMES, SECRETS } from "./settings.ts";

/**
 * The files that the settings name, and of those only the state is written; the control plane; the chat; variables by
 * name. No listener, no program.
 */
export function bridgePermissions(settings: BridgeSettings): PermissionSet {
  const { cert, key, ca, state, identityMap, cpUrl, chat } = settings;
  return mergeSets(
    { read: [cert, key, ca, state, ...(identityMap === undefined ? [] : [identityMap])] },
    {
      write: [state],
      net: urlPermissions(cpUrl),
      env: [...ENV_NAMES, ...SECRETS[chat.kind]],
      ignoreEnv: "all",
    },
    chat.kind === "slack"
      // Slack's library looks at the system's version when it is loaded.
      ? { net: slackAddresses(chat.apiUrl), sys: ["osRelease"] }
      : { net: urlPermissions(chat.url) },
  );
}

/** What other users of the machine must not write, and mostly not read either: who is in the map may approve. */
export function bridgeUsedFiles({ key, ca, identityMap = "", state }: BridgeSettings): readonly UsedFile[] {
  return [
    { key: "--key", path: key, use: "secret" },
    { key: "--ca", path: ca, use: "relied_on" },
    { key: "--identity-map", path: identityMap, use: "relied_on" },
    { key: "--state", path: state, use: "secret" },
  ];
}

/** Slack says anew each time where its socket is: below the domain of its API. */
function slackAddresses(apiUrl: string): readonly string[] {
  const [address = ""] = urlPermissions(apiUrl);
  return /^[a-z]/.test(address) && !address.startsWith("localhost:") ? [address, `*.${address}`] : [address];
}
