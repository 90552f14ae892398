/**
 * The redaction rules that are always on unless the operator turns them off: what passwords, keys and tokens
 * look like in commands and messages.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { BUILT_IN_RULES } from "./rules.ts";
 *
 * assert.equal(BUILT_IN_RULES.length, 12);
 * ```
 *
 * @module
 */

import * as z from "@zod/zod";

/** A rule as text. */
export interface RedactRule {
  readonly name: string;
  /** RE2; when it has a group named `secret`, only that group is masked. */
  readonly regex: string;
  /**
   * A cheap test that every text with a match passes. It must be linear: literals only. `u` makes its case
   * folding that of RE2, where `k` also stands for the Kelvin sign.
   */
  readonly hint?: RegExp;
  /**
   * For text that comes in pieces, which end in white space: what makes a match of each beginning of one that a
   * piece can end in. A rule without is never torn there.
   */
  readonly goesOn?: readonly string[];
}

/** A value: double-quoted, single-quoted, or a run without blanks and quotes. */
const VALUE = `(?P<secret>"[^"]+"|'[^']+'|[^\\s"']+)`;

const SECRET_WORD = [
  "PASSWORD",
  "PASSWD",
  "PASSPHRASE",
  "SECRET",
  "TOKEN",
  "API_?KEY",
  "ACCESS_?KEY",
  "PRIVATE_?KEY",
  "CREDENTIALS?",
  "AUTH",
].join("|");

/** In the order in which they are applied. */
export const BUILT_IN_RULES: readonly RedactRule[] = [
  {
    name: "flag-password",
    regex: `(?i)--?(?:password|passwd|pwd|pass|token|secret|api-key|api_key|apikey)(?:=|\\s+)${VALUE}`,
    hint: /-(?:pass|pwd|token|secret|api)/iu,
    goesOn: ["x", '"', "'"],
  },
  {
    name: "mysql-p-attached",
    regex:
      "(?i)\\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\\b[^\\n|;&]*?\\s-p(?P<secret>[^\\s-]\\S*)",
    hint: /mysql|mariadb/iu,
    goesOn: ["-px", " -px"],
  },
  {
    // PWD alone is the working directory; only as part of a longer name is it a password.
    name: "env-assignment",
    regex: `(?i)\\b(?:(?:[A-Z0-9]+_)*(?:${SECRET_WORD})|(?:[A-Z0-9]+_)+PWD)(?:_[A-Z0-9]+)*=${VALUE}`,
    hint: /pass|secret|token|key|credential|auth|pwd/iu,
    goesOn: ['"', "'"],
  },
  { name: "uri-userinfo", regex: "://[^/\\s:@]*:(?P<secret>[^@\\s/]+)@", hint: /:\/\// },
  {
    name: "auth-header",
    regex: `(?i)\\b(?:authorization|proxy-authorization)["']?\\s*[:=]\\s*["']?(?:bearer|basic|token)\\s+` +
      "(?P<secret>[A-Za-z0-9+/=_.~-]+)",
    hint: /authorization/iu,
    goesOn: ["x", "bearer x", ":bearer x"],
  },
  {
    name: "curl-user",
    regex: `(?:^|\\s)(?:-u|--user)(?:=|\\s+)[^\\s:]+:${VALUE}`,
    hint: /-u/,
    goesOn: ["x:x", '"', "'"],
  },
  {
    name: "jwt",
    regex: "\\beyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}\\b",
    hint: /eyJ/,
  },
  { name: "aws-key-id", regex: "\\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\\b", hint: /AKIA|ASIA|ABIA|ACCA/ },
  {
    name: "github-token",
    regex: "\\b(?:ghp|gho|ghu|ghs|ghr|github_pat)_[A-Za-z0-9_]{20,}",
    hint: /gh[pousr]_|github_pat_/,
  },
  { name: "gitlab-token", regex: "\\bglpat-[A-Za-z0-9_-]{20,}", hint: /glpat-/ },
  { name: "slack-token", regex: "\\bxox[baprs]-[A-Za-z0-9-]{10,}", hint: /xox/ },
  {
    name: "private-key-block",
    regex: "(?s)-----BEGIN[A-Z0-9 ]*PRIVATE KEY-----(?:.*?-----END[A-Z0-9 ]*PRIVATE KEY-----|.*)",
    hint: /-----BEGIN/,
    goesOn: ["x", "KEY-----", "PRIVATE KEY-----"],
  },
];

/** A rule of the operator, applied after the built-in ones. */
interface RedactPattern {
  readonly name: string;
  /** RE2; when it has a group named `secret`, only that group is masked. */
  readonly regex: string;
}

/** The block; absent means the built-in rules alone. */
export interface RedactConfig {
  /** Applied after the built-in rules, in this order. */
  readonly patterns?: readonly RedactPattern[];
  /** True turns the built-in rules off. */
  readonly disable_defaults?: boolean;
}

/** Checks a {@linkcode RedactConfig}; unknown keys are refused. */
export const redactConfig: z.ZodType<RedactConfig> = z.strictObject({
  patterns: z.array(z.strictObject({
    name: z.string().regex(/^[a-zA-Z0-9._-]{1,64}$/, "must be 1 to 64 of a-z A-Z 0-9 . _ -")
      .describe("shown in the mark [REDACTED:<name>]"),
    regex: z.string().min(1).describe("RE2 pattern; a group named secret limits what is masked"),
  })).exactOptional().describe("rules applied after the built-in ones"),
  disable_defaults: z.boolean().exactOptional().describe("true turns the built-in rules off"),
});
