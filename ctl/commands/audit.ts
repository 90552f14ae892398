import type { AddCommand } from "../context.ts";
import { addRepair } from "./audit_repair.ts";
import { addShow } from "./audit_show.ts";
import { addTail } from "./audit_tail.ts";
import { addVerify } from "./audit_verify.ts";

/** `audit`: what can be said about an audit log. */
export const addAudit: AddCommand = (program, context) => {
  const audit = program.command("audit").description("Read, check and mend audit logs.");
  for (const add of [addTail, addShow, addVerify, addRepair]) add(audit, context);
};
