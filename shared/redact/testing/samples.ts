/** A text with secrets, and the same text with its secrets masked. */
export interface Sample {
  readonly name: string;
  readonly text: string;
  readonly masked: string;
}

const m = (name: string) => `[REDACTED:${name}]`;

/** Samples for commands, with the classes of the secrets. */
export const COMMAND_SAMPLES: readonly Sample[] = [
  {
    name: "a password after =",
    text: 'cmd --password="h 2" x',
    masked: `cmd --password=${m("flag-password")} x`,
  },
  {
    name: "a password in single quotes",
    text: "cmd --pass='h 2' x",
    masked: `cmd --pass=${m("flag-password")} x`,
  },
  {
    name: "a password after blanks",
    text: "cmd --token  abc x",
    masked: `cmd --token  ${m("flag-password")} x`,
  },
  { name: "a flag with one dash", text: "cmd -PWD x", masked: `cmd -PWD ${m("flag-password")}` },
  {
    name: "an API key",
    text: "c --api-key=a --api_key=b --apikey=c",
    masked: `c --api-key=${m("flag-password")} --api_key=${m("flag-password")} --apikey=${
      m("flag-password")
    }`,
  },
  {
    name: "a password attached to -p",
    text: "mysql -u app -phunter2 db",
    masked: `mysql -u app -p${m("mysql-p-attached")} db`,
  },
  {
    name: "a password of mariadb-dump",
    text: "mariadb-dump -px",
    masked: `mariadb-dump -p${m("mysql-p-attached")}`,
  },
  {
    name: "a password of redis-cli",
    text: "redis-cli -h db -a 'h 2' ping; ls -a x",
    masked: `redis-cli -h db -a ${m("flag-password")} ping; ls -a x`,
  },
  { name: "an assigned token", text: "TOKEN=abc run", masked: `TOKEN=${m("env-assignment")} run` },
  { name: "an assigned AUTH", text: "AUTH=abc", masked: `AUTH=${m("env-assignment")}` },
  { name: "a longer name with PWD", text: "DB_PWD=abc", masked: `DB_PWD=${m("env-assignment")}` },
  {
    name: "a name with more after it",
    text: "x AWS_SECRET_ACCESS_KEY=a",
    masked: `x AWS_SECRET_ACCESS_KEY=${m("env-assignment")}`,
  },
  { name: "a lower-case name", text: "my_api_key='a b'", masked: `my_api_key=${m("env-assignment")}` },
  {
    name: "a name with the Kelvin sign, which folds to k",
    text: "TO\u212aEN=a",
    masked: `TO\u212aEN=${m("env-assignment")}`,
  },
  { name: "a password in a URL", text: "https://u:p4ss@h/x", masked: `https://u:${m("uri-userinfo")}@h/x` },
  { name: "a password without user", text: "redis://:p4ss@h", masked: `redis://:${m("uri-userinfo")}@h` },
  {
    name: "an authorization header",
    text: 'curl -H "Authorization: Bearer a.b-c" h',
    masked: `curl -H "Authorization: Bearer ${m("auth-header")}" h`,
  },
  {
    name: "a proxy header as JSON",
    text: '"proxy-authorization": "basic eA=="',
    masked: `"proxy-authorization": "basic ${m("auth-header")}"`,
  },
  { name: "curl's user", text: "curl -u me:s3cret h", masked: `curl -u me:${m("curl-user")} h` },
  {
    name: "curl's user, long form",
    text: "curl --user=me:'s 3' h",
    masked: `curl --user=me:${m("curl-user")} h`,
  },
  { name: "a JWT", text: "x eyJhbGciOiJ.eyJzdWIiOi-_.c2lnbmF0dXJl y", masked: `x ${m("jwt")} y` },
  { name: "an AWS key id", text: "AKIAIOSFODNN7EXAMPLE", masked: m("aws-key-id") },
  { name: "a GitHub token", text: `ghp_${"a1".repeat(10)}`, masked: m("github-token") },
  { name: "a fine-grained GitHub token", text: `github_pat_${"a1".repeat(10)}`, masked: m("github-token") },
  { name: "a GitLab token", text: `glpat-${"a-".repeat(10)}`, masked: m("gitlab-token") },
  { name: "a Slack token", text: "xoxb-1234567890-abc", masked: m("slack-token") },
  {
    name: "a private key",
    text: "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb\n-----END OPENSSH PRIVATE KEY-----\nc",
    masked: `a\n${m("private-key-block")}\nc`,
  },
  {
    name: "a private key without end",
    text: "-----BEGIN PRIVATE KEY-----\nb\nc",
    masked: m("private-key-block"),
  },
  {
    name: "a password in a command, and the port that was confused with it",
    text: "mysql -P3306 -px",
    masked: `mysql -P${m("mysql-p-attached")} -p${m("mysql-p-attached")}`,
  },
  {
    name: "a key up to the last line with the same label",
    text: "-----BEGIN PRIVATE KEY-----\n-----END PGP PRIVATE KEY BLOCK-----\nb\n-----END PRIVATE KEY-----\nc",
    masked: `${m("private-key-block")}\nc`,
  },
  {
    name: "a text that only contains a mark",
    text: "TOKEN=[REDACTED:x]abc",
    masked: `TOKEN=${m("env-assignment")}`,
  },
  {
    name: "several secrets",
    text: "A_TOKEN=x B_TOKEN=y",
    masked: `A_TOKEN=${m("env-assignment")} B_TOKEN=${m("env-assignment")}`,
  },
];

/** Samples for documents. */
export const DOCUMENT_SAMPLES: readonly Sample[] = [
  { name: "key=value", text: "password=hunter2 x", masked: "password=[REDACTED] x" },
  { name: "a key of YAML", text: "password: two words\na: b", masked: "password: [REDACTED]\na: b" },
  {
    name: "a key that is pass",
    text: "user: bob\n  pass: hunter2\n- pass: 'p@ssword'\nhost=a, Pass = Tr0ub4dor; x pass=s3cret!",
    masked:
      "user: bob\n  pass: [REDACTED]\n- pass: '[REDACTED]'\nhost=a, Pass = [REDACTED]; x pass=[REDACTED]",
  },
  { name: "a key that ends in a word", text: "db_pwd: hunter2, x", masked: "db_pwd: [REDACTED], x" },
  { name: "a connection string", text: "Server=a;Pwd=h@x/2;Db=c", masked: "Server=a;Pwd=[REDACTED];Db=c" },
  { name: "JSON", text: '{"password": "hunter2", "a": 1}', masked: '{"password": "[REDACTED]", "a": 1}' },
  {
    name: "JSON with an escaped quote",
    text: '{"apiKey":"a\\"b c","d":1}',
    masked: '{"apiKey":"[REDACTED]","d":1}',
  },
  {
    name: "YAML with blanks in quotes",
    text: "client_secret: 'two words' # x",
    masked: "client_secret: '[REDACTED]' # x",
  },
  { name: "TOML", text: 'access-key = "a b"', masked: 'access-key = "[REDACTED]"' },
  { name: "PHP and Ruby", text: "'password' => 'x y'", masked: "'password' => '[REDACTED]'" },
  {
    name: "a bearer header",
    text: "Authorization: Bearer abc.def\nHost: x",
    masked: "Authorization: [REDACTED]\nHost: x",
  },
  {
    name: "a header of another scheme",
    text: "authorization: AWS4-HMAC x, y\n",
    masked: "authorization: [REDACTED]\n",
  },
  {
    name: "a bearer token in a sentence",
    text: "sent bearer abcdefghijklmnop!",
    masked: "sent bearer [REDACTED]!",
  },
  {
    name: "cookies",
    text: "Cookie: a=1; b=2\nSet-Cookie: sid=3; Path=/",
    masked: "Cookie: [REDACTED]\nSet-Cookie: [REDACTED]",
  },
  {
    name: "a password with @ and /",
    text: "postgres://u:p@s/s@h:5432/d",
    masked: "postgres://u:[REDACTED]@h:5432/d",
  },
  {
    name: "a private key",
    text: "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
    masked: "a\n[REDACTED]\nb",
  },
  { name: "a private key without end", text: "-----BEGIN PRIVATE KEY-----\nMII", masked: "[REDACTED]" },
  {
    name: "a PGP key",
    text: "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----",
    masked: "[REDACTED]",
  },
  { name: "an AWS key id", text: "id AKIAIOSFODNN7EXAMPLE", masked: "id [REDACTED]" },
  { name: "a Google key", text: `k AIza${"x".repeat(35)}`, masked: "k [REDACTED]" },
  { name: "a JWT", text: "t eyJhbGciOiJ.eyJzdWIiOi-_.c2lnbmF0dXJl", masked: "t [REDACTED]" },
  { name: "an Azure account key", text: "AccountKey=abc+/==;x", masked: "AccountKey=[REDACTED];x" },
  {
    name: "a signed URL",
    text: "https://b/x?se=1&sig=ab%2F&z=1",
    masked: "https://b/x?se=1&sig=[REDACTED]&z=1",
  },
  {
    name: "a container's variable in YAML",
    text: "- name: DB_PASSWORD\n  value: hunter2\n- name: A",
    masked: "- name: DB_PASSWORD\n  value: [REDACTED]\n- name: A",
  },
  {
    name: "a container's variable in JSON",
    text: '{"name":"API_TOKEN","value":"x"}',
    masked: '{"name":"API_TOKEN","value":"[REDACTED]"}',
  },
  {
    name: "an environment variable",
    text: '"AWS_SECRET_ACCESS_KEY=ab"',
    masked: '"AWS_SECRET_ACCESS_KEY=[REDACTED]"',
  },
  {
    name: "an option of a command",
    text: "curl --token 'a b' -u ann:x y",
    masked: "curl --token [REDACTED] -u ann:[REDACTED] y",
  },
  { name: "an option of mysql", text: "mysql -h db -px y | cat", masked: "mysql -h db -p[REDACTED] y | cat" },
  {
    name: "a variable",
    text: "DB_PASSWORD_FILE='a b' MY_PWD=x PWD=/home",
    masked: "DB_PASSWORD_FILE=[REDACTED] MY_PWD=[REDACTED] PWD=[REDACTED]",
  },
  {
    name: "a token of a forge",
    text: `ghp_${"a".repeat(20)} glpat-${"b".repeat(20)}`,
    masked: "[REDACTED] [REDACTED]",
  },
  { name: "a token of a chat", text: "xoxb-1234567890-a", masked: "[REDACTED]" },
  { name: "a token of a registry", text: `npm_${"a".repeat(36)}`, masked: "[REDACTED]" },
  {
    name: "a payment key",
    text: `sk_live_${"a".repeat(16)} rk_test_${"b".repeat(16)}`,
    masked: "[REDACTED] [REDACTED]",
  },
  { name: "a model's key", text: `sk-${"a".repeat(20)}`, masked: "[REDACTED]" },
  {
    name: "a webhook",
    text: "https://hooks.slack.com/services/T0000/B0000/abcdef",
    masked: "https://hooks.slack.com/[REDACTED]",
  },
  { name: "a value over lines", text: 'password: "a\nb" c', masked: 'password: "[REDACTED]" c' },
  {
    name: "a value whose quote is not closed, to the end of its line",
    text: 'secret="a b\nc',
    masked: "secret=[REDACTED]\nc",
  },
  {
    name: "what two rules find, once",
    text: "password=postgres://u:p;w@h x",
    masked: "password=[REDACTED] x",
  },
  { name: "what begins in the middle of a hint", text: "secretoken=x", masked: "secretoken=[REDACTED]" },
  {
    name: "a netrc line",
    text: "machine h login u password p",
    masked: "machine h login u password [REDACTED]",
  },
  {
    name: "a longer name that ends in pass",
    text: "DB_PASS=x mail.pass: y",
    masked: "DB_PASS=[REDACTED] mail.pass: [REDACTED]",
  },
  {
    name: "keys by their purpose",
    text: 'ENCRYPTION_KEY=a secret_key_base: b "signing-key": "c"',
    masked: 'ENCRYPTION_KEY=[REDACTED] secret_key_base: [REDACTED] "signing-key": "[REDACTED]"',
  },
  {
    name: "words of other languages",
    text: "x contrase\u00f1a: a CONTRASEN\u0303A=b Passwort: c mot de passe : d",
    masked:
      "x contrase\u00f1a: [REDACTED] CONTRASEN\u0303A=[REDACTED] Passwort: [REDACTED] mot de passe : [REDACTED]",
  },
  {
    name: "JSON in a JSON string",
    text: String
      .raw`"{\"password\":\"x \\\"y\\\" z\",\"b\":[\"--token\",\"x y\"],\"name\":\"A_KEY\",\"value\":\"v\"}"`,
    masked: String
      .raw`"{\"password\":\"[REDACTED]\",\"b\":[\"--token\",\"[REDACTED]\"],\"name\":\"A_KEY\",\"value\":\"v\"}"`,
  },
  {
    name: "a container's variable in a JSON string",
    text: String.raw`{\"name\":\"DB_PASS\",\"value\":\"x y\"},{\"name\":\"B\",\"value\":\"c\"}`,
    masked: String.raw`{\"name\":\"DB_PASS\",\"value\":\"[REDACTED]\"},{\"name\":\"B\",\"value\":\"c\"}`,
  },
  {
    name: "a line of YAML",
    text: '- name: DB_PASSWORD\n  value: x "y" z\n- name: B\n  token: x, y\n    z\n  c: d\n',
    masked: "- name: DB_PASSWORD\n  value: [REDACTED]\n- name: B\n  token: [REDACTED]\n  c: d\n",
  },
  {
    name: "a block of YAML",
    text: "data:\n  password: |-\n    a\n\n    b\n  c: d\n",
    masked: "data:\n  password: |-\n[REDACTED]\n  c: d\n",
  },
  {
    name: "the arguments of a container",
    text:
      '["--db-password", "x y", "--port"]\n- --db-password\n- x y\n- --port\n  --db-password\n  x y\n  --port\n',
    masked: '["--db-password", "[REDACTED]", "--port"]\n- --db-password\n[REDACTED]\n- --port\n' +
      "  --db-password\n  [REDACTED]\n  --port\n",
  },
  {
    name: "a described ConfigMap",
    text:
      "DB_PASSWORD:\n----\na\n\nb\n\nB:\n----\nc\n\nAPI_KEY:\n----\nd\n\n\nBinaryData\n====\n\nEvents:  <none>\n",
    masked:
      "DB_PASSWORD:\n----\n[REDACTED]\n\nB:\n----\nc\n\nAPI_KEY:\n----\n[REDACTED]\n\n\nBinaryData\n====\n\nEvents:  <none>\n",
  },
  {
    name: "XML",
    text: '<password>x y</password><db:pwd a="b">\n x\n</db:pwd><p name="secret"><![CDATA[<x>]]></p>' +
      '<a name="my.password" value="x"/>\\u003ctoken\\u003ex\\u003c/token\\u003e',
    masked:
      '<password>[REDACTED]</password><db:pwd a="b">\n [REDACTED]\n</db:pwd><p name="secret"><![CDATA[[REDACTED]]]></p>' +
      '<a name="my.password" value="[REDACTED]"/>\\u003ctoken\\u003e[REDACTED]\\u003c/token\\u003e',
  },
  {
    name: "an XML tag of several lines",
    text: '<password\n  a="b"\n>\nx</password>\n<token\n>',
    masked: '<password\n  a="b"\n>\n[REDACTED]</password>\n<token\n>',
  },
  {
    name: "the credentials of a registry",
    text: '"auth": "eA==", "pass":"x"',
    masked: '"auth": "[REDACTED]", "pass":"[REDACTED]"',
  },
  { name: "a mail key", text: `SG.${"aB3-".repeat(5)}.${"xY_9".repeat(10)}`, masked: "[REDACTED]" },
  {
    name: "another model's key",
    text: `hf_${"aB".repeat(17)} gsk_${"c".repeat(40)}`,
    masked: "[REDACTED] [REDACTED]",
  },
];
