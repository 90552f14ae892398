import { Buffer } from "node:buffer";
import * as z from "@zod/zod";
import { isObject, parseStandardJson } from "@gateway/shared/json";
import { type Approvers, compileApprovers, verifySignedAt } from "@gateway/shared/proofs";
import { quoteText } from "@gateway/shared/text";
import { approvalProof } from "@gateway/shared/wire";
import { badConfig } from "../kit/output.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { MAX_REPORTED } from "./verified_log.ts";

const recorded = z.array(z.object({ document_sha256: z.string(), proof: approvalProof })).min(1);
const MARK = new TextEncoder().encode(',"approvals":[');

/**
 * Verifies the signed approvals in the records of a signer, with the approvers of its config. A record of an approval
 * that needed signatures contains them.
 */
export async function openApprovalCheck(config: string | undefined, workingFolder: string) {
  const { approvals } = await loadSignerFile(config, workingFolder);
  const compiled = approvals && compileApprovers(approvals);
  if (compiled?.kind !== "ok") {
    const problem = compiled?.problems.join("\n  ") ?? "the signer's config has no approvals";
    const fix = compiled === undefined ? "pass --config FILE" : "correct approvals in the signer's config";
    throw badConfig(`Cannot verify approvals: ${problem}`, undefined, fix);
  }
  const problems: string[] = [];
  const used = new Set<string>();
  let [records, proofs] = [0, 0];
  return {
    onLine(line: Uint8Array): void {
      // Most records have none, and parsing all of them would double the time.
      if (Buffer.from(line.buffer, line.byteOffset, line.length).indexOf(MARK) < 0) return;
      const found = verifyRecord(new TextDecoder().decode(line), compiled.approvers, used);
      if (found === undefined) return;
      records += 1;
      proofs += found.proofs;
      for (const problem of found.problems) if (problems.length < MAX_REPORTED) problems.push(problem);
    },
    result: () => ({ ok: problems.length === 0, records, proofs, problems }),
  };
}

function verifyRecord(text: string, approvers: Approvers, used: Set<string>) {
  let record: unknown;
  try {
    record = parseStandardJson(text);
  } catch {
    // The last record of a process that was killed can be torn.
    return { proofs: 0, problems: ["a record with approvals is not JSON"] };
  }
  if (!isObject(record) || !isObject(record["ext"])) return undefined;
  const { seq, time, approved_by } = record;
  const { success, data = [] } = recorded.safeParse(record["ext"]["approvals"]);
  const at = `record ${String(seq)}`;
  if (!success) return { proofs: 0, problems: [`${at}: its approvals cannot be read`] };
  const names: string[] = [];
  const problems = data.flatMap(({ proof, document_sha256 }) => {
    const verified = verifySignedAt(proof, approvers, Date.parse(String(time)));
    if (typeof verified === "string") return [`${at}: ${verified}`];
    names.push(verified.approver);
    if (verified.documentSha256 !== document_sha256) {
      return [`${at}: document_sha256 is not that of the document`];
    }
    if (used.has(document_sha256)) {
      return [`${at}: the decision of ${quoteText(verified.approver)} was used before`];
    }
    used.add(document_sha256);
    return [];
  });
  const isNamed = problems.length > 0 || names.join(",") === approved_by;
  return { proofs: data.length, problems: isNamed ? problems : [`${at}: approved_by names other people`] };
}
