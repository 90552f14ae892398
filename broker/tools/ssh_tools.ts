import type { Sessions } from "../sessions/sessions.ts";
import type { GetFile, PutFile } from "../request/transfer.ts";
import { createSshExecuteTool, type SshExecutePorts } from "./ssh_execute.ts";
import { createSshGetFileTool } from "./ssh_get_file.ts";
import { createSshListServersTool, type ListServersPorts } from "./ssh_list_servers.ts";
import { createSshPutFileTool } from "./ssh_put_file.ts";
import { createSshSessionCloseTool } from "./ssh_session_close.ts";
import { createSshSessionExecTool } from "./ssh_session_exec.ts";
import { createSshSessionOpenTool } from "./ssh_session_open.ts";
import type { Tool } from "./tool.ts";

/** What the tools for SSH hosts need of a broker. */
export interface SshToolsPorts extends SshExecutePorts, ListServersPorts {
  readonly putFile: PutFile;
  readonly getFile: GetFile;
  readonly sessions: Sessions;
}

/** All tools for SSH hosts, as every MCP frontend serves them. */
export function createSshTools(broker: SshToolsPorts): readonly Tool[] {
  return [
    createSshExecuteTool(broker),
    createSshGetFileTool(broker),
    createSshListServersTool(broker),
    createSshPutFileTool(broker),
    createSshSessionCloseTool(broker),
    createSshSessionExecTool(broker),
    createSshSessionOpenTool(broker),
  ];
}
