import assert from "node:assert/strict";
import { assertLinearWork } from "../testing/linear_work.ts";
import fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import { parseCommand, parseScript } from "./shell.ts";

// Every construct of the shell language, one row each.
Deno.test.each([
  ["a simple command", "ps aux", [["ps", "aux"]]],
  ["a pipe", "ps | head", [["ps"], ["head"]]],
  ["a longer pipe with &&, || and ;", "a|b&&c||d;e", [["a"], ["b"], ["c"], ["d"], ["e"]]],
  ["a trailing ;", "ps ;", [["ps"]]],
  ["leading and trailing spaces and tabs", " \tps\t aux ", [["ps", "aux"]]],
  ["= in a path", "/opt/a=b/cmd x", [["/opt/a=b/cmd", "x"]]],
  ["= alone", "test a = b", [["test", "a", "=", "b"]]],
  ["a quoted = in front", "test a '==' b", [["test", "a", "==", "b"]]],
  ["a name with a colon inside", "a:b c:", [["a:b", "c:"]]],
  ["A=b as an argument", "make A=b", [["make", "A=b"]]],
  ["] alone", "echo ]", [["echo", "]"]]],
  ["a tilde inside a word", "ls a~b a:~/x", [["ls", "a~b", "a:~/x"]]],
  ["duplication of descriptors", "ps 2>&1", [["ps"]]],
  ["duplication without number", "ps >&2 <&0", [["ps"]]],
  ["closing of descriptors", "ps >&- 2>&-", [["ps"]]],
  ["duplication with a space", "ps >& 2", [["ps"]]],
  ["duplication in front", "2>&1 ps", [["ps"]]],
  ["a digit that belongs to a word", "ps a2>&1", [["ps", "a2"]]],
  ["a quoted digit before a duplication", "ps '2'>&1", [["ps", "2"]]],
  ["a comment", "ps # ; rm -rf /", [["ps"]]],
  ["a comment after ;", "ps;#rm", [["ps"]]],
  ["# inside a word", "ps a#b ''#c", [["ps", "a#b", "#c"]]],
  ["single quotes", `echo '$x \`y\` "z" \\'`, [["echo", '$x `y` "z" \\']]],
  ["double quotes", `echo "a'b"`, [["echo", "a'b"]]],
  ["escapes in double quotes", '"r\\\\" "\\$x" "\\`" "\\""', [["r\\", "$x", "`", '"']]],
  ["other backslashes in double quotes", 'echo "\\a\\n"', [["echo", "\\a\\n"]]],
  ["adjacent parts", `r"m" 'a'b"c"`, [["rm", "abc"]]],
  ["empty words", `echo '' "" x`, [["echo", "", "", "x"]]],
  ["a $ that stays one", 'grep a$ "b$" "(c$|d$)" "x$/"', [["grep", "a$", "b$", "(c$|d$)", "x$/"]]],
  ["! as an argument", "find . ! -name x", [["find", ".", "!", "-name", "x"]]],
  ["a quoted reserved word", "'if' x", [["if", "x"]]],
  ["reserved words as arguments", "echo if then do", [["echo", "if", "then", "do"]]],
  ["other scripts", "echo é 漢 😀", [["echo", "é", "漢", "😀"]]],
  [
    "letters beyond ASCII before quoted signs, before ; and before a blank",
    `grep '漢\\|字' "漢|字" é; echo 漢 | grep "漢\\d"`,
    [["grep", "漢\\|字", "漢|字", "é"], ["echo", "漢"], ["grep", "漢\\d"]],
  ],
  ["a quoted invisible character", "echo 'a\u00a0b'", [["echo", "a\u00a0b"]]],
  ["a lone surrogate as U+FFFD", "echo \ud800", [["echo", "\ufffd"]]],
  ["cd, umask and ulimit", "cd /tmp; umask 077; ulimit -n", [["cd", "/tmp"], ["umask", "077"], [
    "ulimit",
    "-n",
  ]]],
])("parseCommand() reads %s", (_name, text, commands) => {
  assert.deepEqual(parseCommand(text), { kind: "commands", commands });
});

const LOCALES = "letter beyond ASCII before a sign, which locales read differently";

Deno.test.each([
  ["background", "a & b", "background job"],
  ["trailing background", "a &", "background job"],
  ["|&", "a |& b", "pipe of standard error"],
  ["negation", "! a", "negation"],
  ["negation in a list", "a && ! b", "negation"],
  ["brace group", "{ a; }", "brace group"],
  ["if", "if a; then b; fi", 'reserved word "if"'],
  ["while", "while a; do b; done", 'reserved word "while"'],
  ["until", "until a; do b; done", 'reserved word "until"'],
  ["case", "case a in a) b;; esac", 'reserved word "case"'],
  ["case with an assigning expansion", "case ${PATH:=x} in a) b;; esac", 'reserved word "case"'],
  ["for", "for PATH in /opt/evil; do uptime; done", 'reserved word "for"'],
  ["C-style for", "for ((;;)); do a; done", 'reserved word "for"'],
  ["select", "select a in b; do c; done", 'reserved word "select"'],
  ["coproc", "coproc a", 'reserved word "coproc"'],
  ["function keyword", "function f { a; }", 'reserved word "function"'],
  ["function definition", "ls() { a; }", "function definition"],
  ["function definition with a space", "ls ( ) a", "function definition"],
  ["time keyword", "time a", 'reserved word "time"'],
  ["[[", "[[ -f a ]]", 'reserved word "[["'],
  ["((", "((a=1))", "arithmetic command"],
  ["subshell", "(a)", "subshell"],
  ["subshell in a list", "a; (b)", "subshell"],
  ["command substitution", "a $(b)", "command substitution"],
  ["backticks", "a `b`", "command substitution"],
  ["command substitution in double quotes", 'a "$(b)"', "command substitution"],
  ["backticks in double quotes", 'a "`b`"', "command substitution"],
  ["process substitution in", "a <(b)", "process substitution"],
  ["process substitution out", "a >(b)", "process substitution"],
  ["parameter expansion", "a $x", "parameter expansion"],
  ["parameter expansion in braces", "a ${x:-y}", "parameter expansion"],
  ["parameter expansion in double quotes", 'a "$x"', "parameter expansion"],
  ["special parameter", "a $@", "parameter expansion"],
  ["arithmetic expansion", "a $((1))", "arithmetic expansion"],
  ["old arithmetic expansion", "a $[1]", "arithmetic expansion"],
  ["old arithmetic expansion in double quotes", 'a "$[1]"', "arithmetic expansion"],
  ["ANSI-C quoting", "$'\\x72m' a", "quoting with $'…', which shells read differently"],
  ["locale quoting", 'a $"b"', 'quoting with $"…", which shells read differently'],
  ["extended glob", "a +(b)", "unquoted parenthesis"],
  ["*", "a *.log", "pathname expansion"],
  ["?", "a ?", "pathname expansion"],
  ["[", "[ -f x ]", "pathname expansion"],
  ["brace expansion", "a {b,c}", "brace expansion"],
  ["unquoted }", "a }", "brace expansion"],
  ["tilde", "a ~/b", "tilde expansion"],
  ["tilde after =, which bash expands", "a b=~/c", "tilde expansion"],
  ["tilde after = and :", "a b=c:~/d", "tilde expansion"],
  [
    "a backslash that is half of a letter in GBK and Big5, and ends the quotes there",
    'echo "中\\" ; rm x ; "',
    LOCALES,
  ],
  ["the same after a letter beyond the BMP", 'echo "𝒜\\" ; rm x ; "', LOCALES],
  ["a pipe that is half of a letter there", "rm /tmp/中|echo /etc/passwd", LOCALES],
  ["two pipes, of which one is", "rm /tmp/中||echo /etc/passwd", LOCALES],
  ["unquoted backslash", "r\\m a", "unquoted backslash, quote the word instead"],
  ["assignment alone", "A=b", "environment assignment"],
  ["assignment before a command", "LD_PRELOAD=x ps", "environment assignment"],
  ["assignment in a list", "PATH=/x; ps", "environment assignment"],
  ["assignment after a duplication", "2>&1 A=b ps", "environment assignment"],
  ["appending assignment", "A+=b ps", "environment assignment"],
  ["quoted assignment", "'A=b' ps", "environment assignment"],
  ["assignment to a name that begins with a digit", "9A=b ps", "environment assignment"],
  ["assignment to a positional parameter, in zsh", "1=b ps", "environment assignment"],
  ["assignment to a letter beyond ASCII", "é=b ps", "environment assignment"],
  ["assignment to a member, in ksh93", "a.b=c ps", "environment assignment"],
  ["=b, a path in zsh", "=b cmd", "leading =, which shells read differently"],
  ["=b as an argument", "cmd =b", "leading =, which shells read differently"],
  ["=b after empty quotes", "cmd ''=b", "leading =, which shells read differently"],
  ["==", "test a == b", "leading =, which shells read differently"],
  ["a tilde after empty quotes, in zsh", "cmd ''~", "tilde expansion"],
  ["a label, in ksh93", "a: rm x", "label, which shells read differently"],
  ["repeat, in zsh", "repeat 2 ps", 'reserved word "repeat"'],
  ["foreach, in zsh", "foreach", 'reserved word "foreach"'],
  ["nocorrect, in zsh", "nocorrect ps", 'reserved word "nocorrect"'],
  ["descriptor in a variable", "{fd}>&1 ps", "brace group"],
  ["descriptor in a variable afterwards", "ps {fd}>&1", "brace expansion"],
  [">", "ps >/dev/null", "file redirect"],
  [">>", "ps >> a", "file redirect"],
  [">|", "ps >| a", "file redirect"],
  ["<", "ps < a", "file redirect"],
  ["<>", "ps <> a", "file redirect"],
  ["&>", "ps &> a", "file redirect"],
  ["&>>", "ps &>> a", "file redirect"],
  ["here-string", "cat <<< a", "here-string"],
  ["here-document", "cat << a", "here-document"],
  [">& to a file", "ps >&a", "file redirect"],
  ["<& from a file", "ps <&a", "file redirect"],
  ["quoted target", "ps >&'2'", "file redirect"],
  ["expanded target", "ps >&$x", "file redirect"],
  ["moved descriptor", "ps 2>&1-", "file redirect"],
  ["digits and letters", "ps >&2x", "file redirect"],
  ["target of two digits", "ps >&10", "file redirect"],
  ["descriptor of two digits, a word in dash", "ps 10>&1", "file descriptor of several digits"],
  ["two duplications without a space", "ps 2>&1>&2", "file redirect"],
  ["only a comment", "# ps", "no command found"],
  ["only a duplication", "2>&1", "no command found"],
  ["a duplication instead of a command", "ps; 2>&1", "no command found"],
  ["nothing", "", "no command found"],
  ["only spaces and tabs", " \t ", "no command found"],
  ["unterminated single quote", "ps 'a", "unterminated quote"],
  ["unterminated double quote", 'ps "a', "unterminated quote"],
  ["quote ended by an escaped one", 'ps "a\\"', "unterminated quote"],
  ["missing left side", "| ps", "syntax error"],
  ["missing right side", "ps |", "syntax error"],
  ["missing right side before a comment", "ps && # x", "syntax error"],
  ["two separators", "ps ; ; ps", "syntax error"],
  [";;", "ps ;; ps", "syntax error"],
  ["closing parenthesis", "ps )", "unquoted parenthesis"],
  ["a reserved word out of place", "then ps", 'reserved word "then"'],
  ["in", "in ps", 'reserved word "in"'],
  ["newline", "ps\nrm x", "newline"],
  ["carriage return", "ps\rrm x", "newline"],
  ["newline in quotes", "ps 'a\nb'", "newline"],
  ["NUL", "ps\0rm", "control character"],
  ["escape", "ps '\x1b[0m'", "control character"],
  ["DEL", "ps \x7f", "control character"],
  ["C1", "ps \u0085", "control character"],
  ["unquoted no-break space", "ps a\u00a0b", "unquoted invisible character"],
  ["unquoted line separator", "ps \u2028", "unquoted invisible character"],
  ["unquoted zero-width space", "ps \u200b", "unquoted invisible character"],
  ["a text that a shell parses as an option", "-x; ps", "leading option sign"],
  ["a text with +", "+x", "leading option sign"],
  ["job control", "%1", "job control"],
  ["empty name", "'' ps", "command name that is empty or contains a space"],
  ["name with a space", "'ps aux'", "command name that is empty or contains a space"],
  ["more than 64 KiB", "a ".repeat(40_000), "command too long"],
])("parseCommand() rejects %s", (_name, text, reason) => {
  assert.deepEqual(parseCommand(text), { kind: "refused", reason });
});

Deno.test("parseScript() accepts commands that parseCommand() rejects only for their name", () => {
  const script = parseScript("env A=b; export C=d");
  assert.equal(script.kind, "refused"); // The tree calls `C=d` an assignment.
  assert.deepEqual(parseScript("bash -c id 2>&1"), {
    kind: "lexed",
    commands: [{ words: ["bash", "-c", "id"], duplications: 1 }],
    operators: [],
  });
});

// Characters with a special meaning occur more often than in a random text.
const hostileText = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      ..."'\"\\$`;|&<>(){}[]*?~#!=-+%^ \t\n\0",
      "a",
      "rm",
      "1",
      "$(",
      "&&",
      "||",
      "2>&1",
      "\ud800",
      "é",
    ),
    fc.string({ unit: anyCharacter(fc), minLength: 1, maxLength: 2 }),
  ),
  maxLength: 40,
});

Deno.test("parseCommand() never throws", () => {
  fc.assert(
    fc.property(hostileText, (text) => {
      const parsed = parseCommand(text);
      assert(parsed.kind === "commands" ? parsed.commands.length > 0 : parsed.reason !== "");
    }),
    { numRuns: 5000 },
  );
});

Deno.test("parseCommand() rejects expansion, redirection and nesting outside quotes", () => {
  fc.assert(
    fc.property(hostileText, (text) => {
      if (parseCommand(text).kind === "refused") return;
      // Without quotes and comments, only text with a meaning for the shell remains.
      const bare = text.replace(/'[^']*'|"(?:\\.|[^"\\])*"/g, "Q").replace(/(^|[ \t;|&])#.*$/, "$1");
      assert.doesNotMatch(
        bare,
        /[`\\(){}[*?'"\n\0]|\$[^ \t;|&]|(^|[^&>])&([^&]|$)|[<>](?!&[ \t]*[0-9-])/,
        text,
      );
    }),
    { numRuns: 5000 },
  );
});

Deno.test("parseCommand() returns quoted words unchanged", () => {
  const word = fc.string({ unit: "grapheme", maxLength: 12 }).filter((each) => !/\p{Cc}/u.test(each));
  fc.assert(
    fc.property(fc.array(word, { maxLength: 6 }), (words) => {
      const text = ["ls", ...words.map((each) => `'${each.replaceAll("'", `'"'"'`)}'`)].join(" ");
      assert.deepEqual(parseCommand(text), { kind: "commands", commands: [["ls", ...words]] });
    }),
    { numRuns: 1000 },
  );
});

Deno.test.each([
  { name: "words", unit: "a " },
  { name: "commands", unit: "a;" },
  { name: "a pipe", unit: "a|" },
  { name: "single quotes", unit: "'a'" },
  { name: "double quotes", unit: '"\\$$/"' },
  { name: "one word", unit: "a#" },
  { name: "tildes in one word", unit: "a~" },
  { name: "dollars", unit: "a$ " },
  { name: "duplications", unit: " 2>&1" },
  { name: "parentheses", unit: "(" },
  { name: "substitutions", unit: "$(" },
  { name: "braces", unit: "{ " },
  { name: "open quotes", unit: '"' },
])("parseCommand() needs linear time for $name", ({ unit }) => {
  assertLinearWork((size) => parseCommand("a " + unit.repeat(size / unit.length)), 64_000);
});
