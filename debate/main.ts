/**
 * The diagnosis debate service will live here: a diagnostic agent proposes hypotheses and runs tools, a
 * skeptic tries to falsify them, a moderator decides. Nothing of it is built yet.
 *
 * @module
 */
export {};
