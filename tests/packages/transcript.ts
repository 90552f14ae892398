import assert from "node:assert/strict";
import { writeAllSync } from "@gateway/shared/text";
import type { Ended, Machine } from "./machine.ts";

const LONGEST = 12;

/** Prints the commands that people run on their machines, with output and times, and checks the output. */
export class Transcript {
  readonly #start = performance.now();

  say(text: string): void {
    const seconds = ((performance.now() - this.#start) / 1000).toFixed(1).padStart(6);
    writeAllSync(Deno.stdout, `${seconds} s  ${text}\n`);
  }

  at(name: string, machine: Machine): Person {
    return new Person(this, name, machine);
  }
}

/** A person who runs commands on a machine as root. */
export class Person {
  readonly #transcript: Transcript;
  readonly #name: string;
  readonly machine: Machine;

  constructor(transcript: Transcript, name: string, machine: Machine) {
    this.#transcript = transcript;
    this.#name = name;
    this.machine = machine;
  }

  /** Runs a line. The caller checks the result. */
  async tries(line: string): Promise<Ended> {
    const start = performance.now();
    const ended = await this.machine.run("sh", "-c", line);
    const ms = Math.round(performance.now() - start);
    this.#transcript.say(
      `[${this.#name}]# ${line}   (${ms} ms${ended.code === 0 ? "" : `, exit ${ended.code}`})`,
    );
    const lines = `${ended.stdout}${ended.stderr}`.trimEnd().split("\n").filter((text) => text !== "");
    for (const text of lines.slice(0, LONGEST)) this.#transcript.say(`    ${text}`);
    if (lines.length > LONGEST) this.#transcript.say(`    … ${lines.length - LONGEST} more lines`);
    return ended;
  }

  /** Runs a line that must succeed, and checks its output. */
  async does(line: string, says: RegExp = /^/): Promise<string> {
    const { code, stdout, stderr } = await this.tries(line);
    assert.equal(code, 0, `${line}: ${stdout}${stderr}`);
    assert.match(`${stdout}${stderr}`, says, line);
    return stdout;
  }

  /** Runs a line that must fail with a message. */
  async isRefused(line: string, says: RegExp): Promise<void> {
    const { code, stdout, stderr } = await this.tries(line);
    assert.notEqual(code, 0, line);
    assert.match(`${stdout}${stderr}`, says, line);
  }
}
