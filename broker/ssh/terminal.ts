/** The pseudo-terminal that the broker asks for. */
export const TERMINAL = {
  term: "xterm-256color",
  cols: 220,
  rows: 40,
  width: 0,
  height: 0,
  modes: { ECHO: 0, TTY_OP_ISPEED: 14_400, TTY_OP_OSPEED: 14_400 },
} as const;
