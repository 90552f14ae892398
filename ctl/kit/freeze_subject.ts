import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { FREEZE_KINDS, type FreezeKind, type FreezeSubject, unfreezeRequest } from "@gateway/shared/wire";

/** The flags that name a subject: exactly one has to be there. */
export interface SubjectFlags {
  readonly caller?: string;
  readonly endUser?: string;
  readonly sessionId?: string;
  readonly serial?: string;
}

const FLAGS = {
  caller: "caller",
  end_user: "endUser",
  session_id: "sessionId",
  serial: "serial",
} as const satisfies Record<FreezeKind, keyof SubjectFlags>;

/**
 * The one subject that the flags name.
 *
 * @throws {AppError} `invalid_request` for none or several, and for a value that nobody can have
 */
export function readSubject(flags: SubjectFlags): FreezeSubject {
  const subjects = FREEZE_KINDS.flatMap((kind) => {
    const value = flags[FLAGS[kind]];
    return value === undefined ? [] : [{ kind, value }];
  });
  const [subject] = subjects;
  if (subject === undefined || subjects.length > 1) {
    throw new AppError(
      "invalid_request",
      "Name one subject: --caller, --end-user, --session-id or --serial",
    );
  }
  if (subject.kind === "serial") return { ...subject, value: parseSerial(subject.value).toString() };
  if (!unfreezeRequest.safeParse(subject).success) {
    throw new AppError(
      "invalid_request",
      `Cannot use ${subject.kind} ${quoteText(subject.value)}: it must not be empty or contain blanks`,
    );
  }
  return subject;
}

/**
 * A certificate's serial.
 *
 * @throws {AppError} `invalid_request` when it is not a decimal number of 64 bits, or 0, which no certificate has
 */
export function parseSerial(text: string): bigint {
  const serial = /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
  if (serial === 0n || serial >= 2n ** 64n) {
    throw new AppError(
      "invalid_request",
      `Cannot use serial ${quoteText(text)}: expected a number from 1 to ${2n ** 64n - 1n}`,
    );
  }
  return serial;
}
