import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { Person, Transcript } from "./transcript.ts";

const PROGRAM = new URL("chat_main.ts", import.meta.url).pathname;
const CONFIG = "--config /etc/gateway/signer.json";

/** A fake chat for the approval bridge of a machine, and the people who click in it. */
export class Chat implements AsyncDisposable {
  readonly #transcript: Transcript;
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: AsyncIterator<string>;
  url = "";

  private constructor(transcript: Transcript, child: Deno.ChildProcess) {
    this.#transcript = transcript;
    this.#child = child;
    this.#input = child.stdin.getWriter();
    const input = Readable.from(child.stdout.pipeThrough(new TextDecoderStream()));
    this.#lines = createInterface({ input })[Symbol.asyncIterator]();
  }

  /** @param namespace network namespace of the machine */
  static async open(transcript: Transcript, namespace: string): Promise<Chat> {
    const deno = [Deno.execPath(), "run", "--quiet", "--no-check", "--allow-net=127.0.0.1", PROGRAM];
    const child = new Deno.Command("ip", {
      args: ["netns", "exec", namespace, ...deno],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const chat = new Chat(transcript, child);
    chat.url = await chat.#answer();
    return chat;
  }

  async read(says: RegExp): Promise<void> {
    await this.#does("read", says);
  }

  async clicks(user: string, says: RegExp): Promise<void> {
    await this.#does(`approve ${user}`, says);
  }

  async #does(line: string, says: RegExp): Promise<void> {
    await this.#input.write(new TextEncoder().encode(`${line}\n`));
    const text = await this.#answer();
    this.#transcript.say(`[chat] ${line}`);
    for (const each of text.trim().split("\n")) this.#transcript.say(`    ${each}`);
    assert.match(text, says);
  }

  async #answer(): Promise<string> {
    const { done, value } = await this.#lines.next();
    if (done === true) throw new Error("the chat has stopped");
    return JSON.parse(value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#input.close();
    await this.#child.status;
  }
}

/** Configures the packaged bridge: its map names Ann as agent-1, and Bob as another person. */
export async function setBridgeUp(gateway: Person, { url }: Chat): Promise<void> {
  await gateway.does(`broker-ctl identity add approver approval-bridge ${CONFIG}`, /added/);
  await gateway.does(
    `printf '{ "U0ANN": "agent-1", "U0BOB": "bob@example.org" }' >/etc/gateway/approval-bridge.json`,
  );
  await gateway.does(
    `printf 'SLACK_CHANNEL=C0CHANNEL\\nSLACK_API_URL=${url}\\nSLACK_BOT_TOKEN=xoxb-secret\\n` +
      `SLACK_APP_TOKEN=xapp-secret\\n' >/etc/gateway/approval-bridge.env`,
  );
  await gateway.does("systemd-tmpfiles --create gateway.conf");
  await gateway.does("systemctl restart gateway-control-plane");
  await gateway.does("systemctl enable --now gateway-approval-bridge");
}
