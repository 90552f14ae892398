import { findLoginShellRisk } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { fail, type Finding, pass, unknown, warn } from "./finding.ts";

/** What was asked of a host, and what it answered. */
interface HostAnswer {
  readonly file: string;
  readonly name: string;
  /** The CA's key, `<algorithm> <base64>`; undefined: it is not known here. */
  readonly ca: string | undefined;
  readonly lines: readonly string[];
  /** This machine's clock before and behind the answer, in seconds. */
  readonly asked: number;
  readonly answered: number;
}

/** Certificates begin 30 seconds before they are issued. */
const MOST_SKEW_SECONDS = 20;
const LONGEST = 200;
/** By the word of `enrol --status`. */
const BARRED: ReadonlyMap<string, readonly [why: string, fix: string]> = new Map([
  ["locked", ["which is locked, and its sshd has UsePAM no", "usermod -p '*' and the account, there"]],
  ["expired", ["which expired", "usermod -e '' and the account, there"]],
  ["shell", ["whose login shell is none", "usermod -s /bin/sh and the account, there"]],
]);

/** Which settings of a host's sshd, as it tells them itself, defeat what certificates promise. */
export function judgeHost({ file, name, ca, lines, asked, answered }: HostAnswer): readonly Finding[] {
  const of = (label: string) => {
    const line = lines.find((line) => line.startsWith(label));
    return line?.slice(label.length).trim().slice(0, LONGEST);
  };
  const host = `host ${quoteText(name)}`;
  const enrol = `broker-ctl host enrol ${name}`;
  const clear = (label: string, good: string, bad: (value: string) => Finding) => {
    const value = of(label);
    if (value === undefined) {
      return unknown(file, `${host} does not say its ${label.trim()}`, "run sshd -T there");
    }
    return value === good ? pass(file, `${host}: ${label}${good}`) : bad(value);
  };
  const shell = of("shell: ");
  const risk = shell === undefined || shell === ""
    ? "it does not say its account's login shell"
    : findLoginShellRisk(shell);
  const time = Number(of("time: ") ?? NaN);
  const off = Math.max(asked - time, time - answered, 0);
  return [
    ca === undefined
      ? unknown(file, `${host}: the CA's public key is not here to compare with`, "run it where it is")
      : lines.includes(`ca: ${ca}`)
      ? pass(file, `${host} trusts the CA`)
      : fail(file, `${host} does not trust the CA that signs: it refuses every certificate`, enrol),
    clear("login: ", "yes", (value) => {
      const [why, fix] = BARRED.get(value) ?? [];
      return why === undefined || fix === undefined
        ? unknown(file, `${host} does not say whether anybody gets in`, `look there: ${enrol} --print`)
        : fail(file, `${host} lets nobody into its account, ${why}`, fix);
    }),
    clear("principal: ", "yes", () => fail(file, `${host} does not accept certificates for it`, enrol)),
    clear(
      "sshd: forcecommand ",
      "none",
      (value) =>
        fail(
          file,
          `${host} has ForceCommand ${quoteText(value)}: it runs in place of what a certificate allows`,
          "take it out of sshd_config there, for this account",
        ),
    ),
    of("sshd: revokedkeys ") === "none"
      ? warn(
        file,
        `${host} has no RevokedKeys: it believes a stolen certificate until that ends`,
        `broker-ctl host krl ${name}`,
      )
      : clear("sshd: revokedkeys ", of("sshd: revokedkeys ") ?? "none", () => pass(file, host)),
    ...(["authorizedkeysfile", "authorizedkeyscommand"] as const).map((setting) =>
      clear(
        `sshd: ${setting} `,
        "none",
        (value) =>
          warn(
            file,
            `${host} takes keys without a certificate (${setting} ${value}): past rules, records and freezes`,
            `Match User, and ${setting} none, in sshd_config there`,
          ),
      )
    ),
    clear(
      "sshd: permituserenvironment ",
      "no",
      (value) =>
        fail(
          file,
          `${host} has PermitUserEnvironment ${
            quoteText(value)
          }: files of the account change what commands do`,
          "PermitUserEnvironment no",
        ),
    ),
    risk === undefined
      ? pass(file, `${host}: its login shell is proved`)
      : warn(file, `${host}: ${risk}`, "give the account /bin/sh, or another that is proved"),
    Number.isNaN(off)
      ? unknown(file, `${host} does not say which time it is`, "run date there")
      : off <= MOST_SKEW_SECONDS
      ? pass(file, `${host}: its clock is right`)
      : fail(
        file,
        `${host}: its clock is ${Math.round(off)} s off this machine's: certificates are early or late there`,
        "run a time service on both",
      ),
  ];
}
