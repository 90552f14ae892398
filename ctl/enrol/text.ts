import program from "./enrol" with { type: "text" };

/** What enrols a host, a program of sh, which explains its options itself. */
export const ENROL_TEXT: string = program;
