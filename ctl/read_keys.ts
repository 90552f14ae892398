/**
 * The keys that are typed at the terminal of standard input, one by one, until the signal is aborted. Meanwhile it
 * shows none of them, and passes control-C on as a key.
 */
export async function* readKeys(signal: AbortSignal): AsyncGenerator<string> {
  Deno.stdin.setRaw(true);
  const reader = Deno.stdin.readable.getReader();
  const stop = () => void reader.cancel();
  signal.addEventListener("abort", stop, { once: true });
  const decoder = new TextDecoder();
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* decoder.decode(value, { stream: true });
    }
  } finally {
    signal.removeEventListener("abort", stop);
    Deno.stdin.setRaw(false);
  }
}
