/** Adds hosts to the signer's config in the directory of its first argument and prints each, until it is killed. */
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { runProgram } from "../../ctl/program.ts";

const [workingFolder = "", prefix = ""] = Deno.args;
const say = (text: string) => void Deno.stdout.writeSync(new TextEncoder().encode(text));
for (let number = 0;; number++) {
  const name = `${prefix}${number}`;
  const host = ["--name", name, "--addr", "10.0.0.1:22", "--user", "u", "--host-key", SAMPLE_HOST_KEY];
  const exit = await runProgram(["host", "add", ...host], {
    terminal: { out: () => {}, err: () => {} },
    workingFolder,
    variables: {},
  });
  if (exit === 0) say(`${name}\n`);
}
