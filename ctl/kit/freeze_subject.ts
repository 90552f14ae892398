import { quoteText } from "@gateway/shared/text";
import { invalid } from "./output.ts";

/** A certificate's serial. */
export function parseSerial(text: string): bigint {
  const serial = /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
  if (serial === 0n || serial >= 2n ** 64n) {
    throw invalid(`Cannot use serial ${quoteText(text)}: expected a number from 1 to ${2n ** 64n - 1n}`);
  }
  return serial;
}
