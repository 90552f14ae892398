/** Prints why this process cannot use the machine's sshd, or `none`. */
import { SSHD_PROBLEM } from "./sshd_problem.ts";

await Deno.stdout.write(new TextEncoder().encode(SSHD_PROBLEM || "none"));
