import type { JSX } from "preact";

export function Start({ isLogin }: { readonly isLogin: boolean }): JSX.Element {
  return <h1 tabIndex={-1}>Start</h1>;
}
