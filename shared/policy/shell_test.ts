import assert from "node:assert/strict";
import { assertLinearWork } from "../testing/linear_work.ts";
import fc from "fast-check";
import { parseCommand, parseScript } from "./shell.ts";

// Every construct of the shell language, one row each.
Deno.test.each([
  { name: "a simple command", text: "ps aux", commands: [["ps", "aux"]] },
  { name: "a pipe", text: "ps | head", commands: [["ps"], ["head"]] },
  {
    name: "a longer pipe with &&, || and ;",
    text: "a|b&&c||d;e",
    commands: [["a"], ["b"], ["c"], ["d"], ["e"]],
  },
  { name: "a trailing ;", text: "ps ;", commands: [["ps"]] },
  { name: "blanks and tabs around", text: " \tps\t aux ", commands: [["ps", "aux"]] },
  { name: "= in a path", text: "/opt/a=b/cmd x", commands: [["/opt/a=b/cmd", "x"]] },
  { name: "= alone", text: "test a = b", commands: [["test", "a", "=", "b"]] },
  { name: "a quoted = in front", text: "test a '==' b", commands: [["test", "a", "==", "b"]] },
  { name: "a name with a colon inside", text: "a:b c:", commands: [["a:b", "c:"]] },
  { name: "A=b as an argument", text: "make A=b", commands: [["make", "A=b"]] },
  { name: "] alone", text: "echo ]", commands: [["echo", "]"]] },
  { name: "a tilde inside a word", text: "ls a~b a:~/x", commands: [["ls", "a~b", "a:~/x"]] },
  { name: "duplication of descriptors", text: "ps 2>&1", commands: [["ps"]] },
  { name: "duplication without number", text: "ps >&2 <&0", commands: [["ps"]] },
  { name: "closing of descriptors", text: "ps >&- 2>&-", commands: [["ps"]] },
  { name: "duplication with a blank", text: "ps >& 2", commands: [["ps"]] },
  { name: "duplication in front", text: "2>&1 ps", commands: [["ps"]] },
  { name: "a digit that belongs to a word", text: "ps a2>&1", commands: [["ps", "a2"]] },
  { name: "a quoted digit before a duplication", text: "ps '2'>&1", commands: [["ps", "2"]] },
  { name: "a comment", text: "ps # ; rm -rf /", commands: [["ps"]] },
  { name: "a comment behind ;", text: "ps;#rm", commands: [["ps"]] },
  { name: "# inside a word", text: "ps a#b ''#c", commands: [["ps", "a#b", "#c"]] },
  { name: "single quotes", text: `echo '$x \`y\` "z" \\'`, commands: [["echo", '$x `y` "z" \\']] },
  { name: "double quotes", text: `echo "a'b"`, commands: [["echo", "a'b"]] },
  {
    name: "escapes in double quotes",
    text: '"r\\\\" "\\$x" "\\`" "\\""',
    commands: [["r\\", "$x", "`", '"']],
  },
  { name: "other backslashes in double quotes", text: 'echo "\\a\\n"', commands: [["echo", "\\a\\n"]] },
  { name: "adjacent parts", text: `r"m" 'a'b"c"`, commands: [["rm", "abc"]] },
  { name: "empty words", text: `echo '' "" x`, commands: [["echo", "", "", "x"]] },
  {
    name: "a $ that stays one",
    text: 'grep a$ "b$" "(c$|d$)" "x$/"',
    commands: [["grep", "a$", "b$", "(c$|d$)", "x$/"]],
  },
  { name: "! as an argument", text: "find . ! -name x", commands: [["find", ".", "!", "-name", "x"]] },
  { name: "a quoted reserved word", text: "'if' x", commands: [["if", "x"]] },
  { name: "reserved words as arguments", text: "echo if then do", commands: [["echo", "if", "then", "do"]] },
  { name: "other scripts", text: "echo é 漢 😀", commands: [["echo", "é", "漢", "😀"]] },
  {
    name: "letters beyond ASCII before quoted signs, before ; and before a blank",
    text: `grep '漢\\|字' "漢|字" é; echo 漢 | grep "漢\\d"`,
    commands: [["grep", "漢\\|字", "漢|字", "é"], ["echo", "漢"], ["grep", "漢\\d"]],
  },
  { name: "a quoted invisible character", text: "echo 'a\u00a0b'", commands: [["echo", "a\u00a0b"]] },
  { name: "a lone surrogate as U+FFFD", text: "echo \ud800", commands: [["echo", "\ufffd"]] },
  {
    name: "cd, umask and ulimit",
    text: "cd /tmp; umask 077; ulimit -n",
    commands: [["cd", "/tmp"], ["umask", "077"], ["ulimit", "-n"]],
  },
])("parseCommand() reads $name", ({ text, commands }) => {
  assert.deepEqual(parseCommand(text), { kind: "commands", commands });
});

const LOCALES = "letter beyond ASCII before a sign, which locales read differently";

Deno.test.each([
  { name: "background", text: "a & b", reason: "background job" },
  { name: "trailing background", text: "a &", reason: "background job" },
  { name: "|&", text: "a |& b", reason: "pipe of standard error" },
  { name: "negation", text: "! a", reason: "negation" },
  { name: "negation in a list", text: "a && ! b", reason: "negation" },
  { name: "brace group", text: "{ a; }", reason: "brace group" },
  { name: "if", text: "if a; then b; fi", reason: 'reserved word "if"' },
  { name: "while", text: "while a; do b; done", reason: 'reserved word "while"' },
  { name: "until", text: "until a; do b; done", reason: 'reserved word "until"' },
  { name: "case", text: "case a in a) b;; esac", reason: 'reserved word "case"' },
  {
    name: "case with an assigning expansion",
    text: "case ${PATH:=x} in a) b;; esac",
    reason: 'reserved word "case"',
  },
  { name: "for", text: "for PATH in /opt/evil; do uptime; done", reason: 'reserved word "for"' },
  { name: "C-style for", text: "for ((;;)); do a; done", reason: 'reserved word "for"' },
  { name: "select", text: "select a in b; do c; done", reason: 'reserved word "select"' },
  { name: "coproc", text: "coproc a", reason: 'reserved word "coproc"' },
  { name: "function keyword", text: "function f { a; }", reason: 'reserved word "function"' },
  { name: "function definition", text: "ls() { a; }", reason: "function definition" },
  { name: "function definition with a blank", text: "ls ( ) a", reason: "function definition" },
  { name: "time keyword", text: "time a", reason: 'reserved word "time"' },
  { name: "[[", text: "[[ -f a ]]", reason: 'reserved word "[["' },
  { name: "((", text: "((a=1))", reason: "arithmetic command" },
  { name: "subshell", text: "(a)", reason: "subshell" },
  { name: "subshell in a list", text: "a; (b)", reason: "subshell" },
  { name: "command substitution", text: "a $(b)", reason: "command substitution" },
  { name: "backticks", text: "a `b`", reason: "command substitution" },
  { name: "command substitution in double quotes", text: 'a "$(b)"', reason: "command substitution" },
  { name: "backticks in double quotes", text: 'a "`b`"', reason: "command substitution" },
  { name: "process substitution in", text: "a <(b)", reason: "process substitution" },
  { name: "process substitution out", text: "a >(b)", reason: "process substitution" },
  { name: "parameter expansion", text: "a $x", reason: "parameter expansion" },
  { name: "parameter expansion in braces", text: "a ${x:-y}", reason: "parameter expansion" },
  { name: "parameter expansion in double quotes", text: 'a "$x"', reason: "parameter expansion" },
  { name: "special parameter", text: "a $@", reason: "parameter expansion" },
  { name: "arithmetic expansion", text: "a $((1))", reason: "arithmetic expansion" },
  { name: "old arithmetic expansion", text: "a $[1]", reason: "arithmetic expansion" },
  { name: "old arithmetic expansion in double quotes", text: 'a "$[1]"', reason: "arithmetic expansion" },
  { name: "ANSI-C quoting", text: "$'\\x72m' a", reason: "quoting with $'…', which shells read differently" },
  { name: "locale quoting", text: 'a $"b"', reason: 'quoting with $"…", which shells read differently' },
  { name: "extended glob", text: "a +(b)", reason: "unquoted parenthesis" },
  { name: "*", text: "a *.log", reason: "pathname expansion" },
  { name: "?", text: "a ?", reason: "pathname expansion" },
  { name: "[", text: "[ -f x ]", reason: "pathname expansion" },
  { name: "brace expansion", text: "a {b,c}", reason: "brace expansion" },
  { name: "unquoted }", text: "a }", reason: "brace expansion" },
  { name: "tilde", text: "a ~/b", reason: "tilde expansion" },
  { name: "tilde behind =, which bash expands", text: "a b=~/c", reason: "tilde expansion" },
  { name: "tilde behind = and :", text: "a b=c:~/d", reason: "tilde expansion" },
  {
    name: "a backslash that is half of a letter in GBK and Big5, and ends the quotes there",
    text: 'echo "中\\" ; rm x ; "',
    reason: LOCALES,
  },
  {
    name: "the same behind a letter beyond the first plane",
    text: 'echo "𝒜\\" ; rm x ; "',
    reason: LOCALES,
  },
  { name: "a pipe that is half of a letter there", text: "rm /tmp/中|echo /etc/passwd", reason: LOCALES },
  { name: "two pipes, of which one is", text: "rm /tmp/中||echo /etc/passwd", reason: LOCALES },
  { name: "unquoted backslash", text: "r\\m a", reason: "unquoted backslash, quote the word instead" },
  { name: "assignment alone", text: "A=b", reason: "environment assignment" },
  { name: "assignment before a command", text: "LD_PRELOAD=x ps", reason: "environment assignment" },
  { name: "assignment in a list", text: "PATH=/x; ps", reason: "environment assignment" },
  { name: "assignment behind a duplication", text: "2>&1 A=b ps", reason: "environment assignment" },
  { name: "appending assignment", text: "A+=b ps", reason: "environment assignment" },
  { name: "quoted assignment", text: "'A=b' ps", reason: "environment assignment" },
  {
    name: "assignment to a name that begins with a digit",
    text: "9A=b ps",
    reason: "environment assignment",
  },
  { name: "assignment to a positional parameter, in zsh", text: "1=b ps", reason: "environment assignment" },
  { name: "assignment to a letter beyond ASCII", text: "é=b ps", reason: "environment assignment" },
  { name: "assignment to a member, in ksh93", text: "a.b=c ps", reason: "environment assignment" },
  { name: "=b, a path in zsh", text: "=b cmd", reason: "leading =, which shells read differently" },
  { name: "=b as an argument", text: "cmd =b", reason: "leading =, which shells read differently" },
  { name: "=b behind empty quotes", text: "cmd ''=b", reason: "leading =, which shells read differently" },
  { name: "==", text: "test a == b", reason: "leading =, which shells read differently" },
  { name: "a tilde behind empty quotes, in zsh", text: "cmd ''~", reason: "tilde expansion" },
  { name: "a label, in ksh93", text: "a: rm x", reason: "label, which shells read differently" },
  { name: "repeat, in zsh", text: "repeat 2 ps", reason: 'reserved word "repeat"' },
  { name: "foreach, in zsh", text: "foreach", reason: 'reserved word "foreach"' },
  { name: "nocorrect, in zsh", text: "nocorrect ps", reason: 'reserved word "nocorrect"' },
  { name: "descriptor in a variable", text: "{fd}>&1 ps", reason: "brace group" },
  { name: "descriptor in a variable behind", text: "ps {fd}>&1", reason: "brace expansion" },
  { name: ">", text: "ps >/dev/null", reason: "file redirect" },
  { name: ">>", text: "ps >> a", reason: "file redirect" },
  { name: ">|", text: "ps >| a", reason: "file redirect" },
  { name: "<", text: "ps < a", reason: "file redirect" },
  { name: "<>", text: "ps <> a", reason: "file redirect" },
  { name: "&>", text: "ps &> a", reason: "file redirect" },
  { name: "&>>", text: "ps &>> a", reason: "file redirect" },
  { name: "here-string", text: "cat <<< a", reason: "here-string" },
  { name: "here-document", text: "cat << a", reason: "here-document" },
  { name: ">& to a file", text: "ps >&a", reason: "file redirect" },
  { name: "<& from a file", text: "ps <&a", reason: "file redirect" },
  { name: "quoted target", text: "ps >&'2'", reason: "file redirect" },
  { name: "expanded target", text: "ps >&$x", reason: "file redirect" },
  { name: "moved descriptor", text: "ps 2>&1-", reason: "file redirect" },
  { name: "digits and letters", text: "ps >&2x", reason: "file redirect" },
  { name: "target of two digits", text: "ps >&10", reason: "file redirect" },
  {
    name: "descriptor of two digits, a word in dash",
    text: "ps 10>&1",
    reason: "file descriptor of several digits",
  },
  { name: "two duplications without blank", text: "ps 2>&1>&2", reason: "file redirect" },
  { name: "only a comment", text: "# ps", reason: "no command found" },
  { name: "only a duplication", text: "2>&1", reason: "no command found" },
  { name: "a duplication instead of a command", text: "ps; 2>&1", reason: "no command found" },
  { name: "nothing", text: "", reason: "no command found" },
  { name: "only blanks", text: " \t ", reason: "no command found" },
  { name: "unterminated single quote", text: "ps 'a", reason: "unterminated quote" },
  { name: "unterminated double quote", text: 'ps "a', reason: "unterminated quote" },
  { name: "quote ended by an escaped one", text: 'ps "a\\"', reason: "unterminated quote" },
  { name: "missing left side", text: "| ps", reason: "syntax error" },
  { name: "missing right side", text: "ps |", reason: "syntax error" },
  { name: "missing right side before a comment", text: "ps && # x", reason: "syntax error" },
  { name: "two separators", text: "ps ; ; ps", reason: "syntax error" },
  { name: ";;", text: "ps ;; ps", reason: "syntax error" },
  { name: "closing parenthesis", text: "ps )", reason: "unquoted parenthesis" },
  { name: "a reserved word out of place", text: "then ps", reason: 'reserved word "then"' },
  { name: "in", text: "in ps", reason: 'reserved word "in"' },
  { name: "newline", text: "ps\nrm x", reason: "newline" },
  { name: "carriage return", text: "ps\rrm x", reason: "newline" },
  { name: "newline in quotes", text: "ps 'a\nb'", reason: "newline" },
  { name: "NUL", text: "ps\0rm", reason: "control character" },
  { name: "escape", text: "ps '\x1b[0m'", reason: "control character" },
  { name: "DEL", text: "ps \x7f", reason: "control character" },
  { name: "C1", text: "ps \u0085", reason: "control character" },
  { name: "unquoted no-break space", text: "ps a\u00a0b", reason: "unquoted invisible character" },
  { name: "unquoted line separator", text: "ps \u2028", reason: "unquoted invisible character" },
  { name: "unquoted zero-width space", text: "ps \u200b", reason: "unquoted invisible character" },
  { name: "a text that a shell takes for an option", text: "-x; ps", reason: "leading option sign" },
  { name: "a text with +", text: "+x", reason: "leading option sign" },
  { name: "job control", text: "%1", reason: "job control" },
  { name: "empty name", text: "'' ps", reason: "command name that is empty or contains a blank" },
  { name: "name with a blank", text: "'ps aux'", reason: "command name that is empty or contains a blank" },
  { name: "more than 64 KiB", text: "a ".repeat(40_000), reason: "command too long" },
])("parseCommand() refuses $name", ({ text, reason }) => {
  assert.deepEqual(parseCommand(text), { kind: "refused", reason });
});

Deno.test("parseScript() takes what parseCommand() refuses for its name alone", () => {
  const script = parseScript("env A=b; export C=d");
  assert.equal(script.kind, "refused"); // The tree calls `C=d` an assignment.
  assert.deepEqual(parseScript("bash -c id 2>&1"), {
    kind: "lexed",
    commands: [{ words: ["bash", "-c", "id"], duplications: 1 }],
    operators: [],
  });
});

// The characters that mean something, each more likely than in a random text.
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
    fc.string({ unit: "binary", minLength: 1, maxLength: 2 }),
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

Deno.test("parseCommand() accepts nothing that expands, redirects or nests outside quotes", () => {
  fc.assert(
    fc.property(hostileText, (text) => {
      if (parseCommand(text).kind === "refused") return;
      // Quotes and comments away; what is left is what a shell acts on.
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

Deno.test("parseCommand() gives back the words that were quoted", () => {
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
])("parseCommand() takes linear time for $name", ({ unit }) => {
  assertLinearWork((size) => parseCommand("a " + unit.repeat(size / unit.length)), 64_000);
});
