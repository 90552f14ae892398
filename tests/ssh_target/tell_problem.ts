/** Writes to stdout why this process can't use the machine's sshd, or `none`. */
import { SSHD_PROBLEM } from "./sshd_problem.ts";

await Deno.stdout.write(new TextEncoder().encode(SSHD_PROBLEM || "none"));
