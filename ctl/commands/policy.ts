import type { AddCommand } from "../context.ts";
import { addExplain } from "./policy_explain.ts";
import { addGrants } from "./policy_grants.ts";
import { addRules } from "./policy_rules.ts";

/** `policy`: what may run where. */
export const addPolicy: AddCommand = (program, context) => {
  const policy = program.command("policy").description("Explain and change what may run where.");
  for (const add of [addExplain, addRules, addGrants]) add(policy, context);
};
