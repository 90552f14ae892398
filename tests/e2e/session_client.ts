import assert from "node:assert/strict";
import { parseJson } from "@gateway/shared/json";
import { HOST } from "../stage/stage.ts";
import type { McpProcess } from "./mcp_process.ts";

export interface ToolAnswer {
  readonly text: string;
  readonly isError: boolean;
  readonly structured: Record<string, unknown>;
}

/** An MCP client for concurrent calls. */
export class SessionClient {
  readonly #mcp: McpProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<ToolAnswer>>();
  #reading: Promise<void> | undefined;

  constructor(mcp: McpProcess) {
    this.#mcp = mcp;
  }

  async call(name: string, args: object): Promise<ToolAnswer> {
    const answer = Promise.withResolvers<ToolAnswer>();
    this.#waiting.set(await this.#mcp.start("tools/call", { name, arguments: args }), answer);
    this.#reading ??= this.#read().catch((error) => this.#fail(error));
    return await answer.promise;
  }

  async open(args: object = {}): Promise<string> {
    const { text, isError, structured } = await this.call("ssh_session_open", { server: HOST, ...args });
    assert.equal(isError, false, text);
    return String(structured["session_id"]);
  }

  async exec(sessionId: string, command: string): Promise<ToolAnswer> {
    return await this.call("ssh_session_exec", { session_id: sessionId, command });
  }

  #fail(error: unknown): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  async #read(): Promise<void> {
    while (this.#waiting.size > 0) {
      const { id, result } = parseJson(await this.#mcp.line()) as {
        readonly id?: number;
        readonly result?: {
          content: readonly { text: string }[];
          isError?: boolean;
          structuredContent?: object;
        };
      };
      if (id === undefined) continue;
      this.#waiting.get(id)?.resolve({
        text: result?.content[0]?.text ?? "",
        isError: result?.isError === true,
        structured: { ...result?.structuredContent },
      });
      this.#waiting.delete(id);
    }
    this.#reading = undefined;
  }
}

/** The text of a result with its random mark replaced by a star. */
export function withoutMark(text: string): string {
  const [, mark] = /^\[stdout ([0-9a-f]{16}) /.exec(text) ?? [];
  return mark === undefined ? text : text.replaceAll(mark, "*");
}
