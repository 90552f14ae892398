import "@gateway/shared/service/no_storage";
import { runProgram } from "../cli/program.ts";
import { runHere } from "../main.ts";
import { createLab } from "./program.ts";

if (import.meta.main) {
  await runHere((args, environment) => runProgram(args, environment, createLab));
}
