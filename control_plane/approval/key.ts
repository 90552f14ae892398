import { parseEd25519PublicKey } from "@gateway/shared/ssh/public_key";

/** Whether two authorized_keys lines hold the same Ed25519 key, whatever their comments; false when one holds none. */
export function isSameKey(a: string, b: string): boolean {
  try {
    const [left, right] = [parseEd25519PublicKey(a), parseEd25519PublicKey(b)];
    return left.every((byte, index) => byte === right[index]);
  } catch {
    return false;
  }
}
