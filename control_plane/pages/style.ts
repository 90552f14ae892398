/** The light and the dark color of each use. */
export const COLORS = {
  page: ["#f4f5f7", "#121417"],
  surface: ["#ffffff", "#1a1d21"],
  /** Behind commands and other text of unknown origin. */
  well: ["#f6f7f9", "#121417"],
  text: ["#1a1d21", "#e6e8eb"],
  muted: ["#555c66", "#a3aab4"],
  line: ["#dfe2e7", "#30353c"],
  /** The borders of controls, such as buttons and fields. */
  edge: ["#7c838f", "#7f8792"],
  link: ["#0b57a8", "#8cbcf7"],
  focus: ["#0b57a8", "#8cbcf7"],
  approve: ["#14693c", "#7dd3a0"],
  onApprove: ["#ffffff", "#08210f"],
  deny: ["#ffffff", "#1a1d21"],
  onDeny: ["#a4231b", "#ff9d94"],
  good: ["#11572f", "#8edcae"],
  goodWell: ["#e3f3e9", "#12301f"],
  bad: ["#8f1d16", "#ffa9a1"],
  badWell: ["#fbe9e7", "#3a1815"],
  warn: ["#6b4500", "#f3cf7a"],
  warnWell: ["#fdf1d3", "#352807"],
  idle: ["#4a515b", "#b9bfc8"],
  idleWell: ["#eaecf0", "#2a2f36"],
} as const;

function toCustomProperties(scheme: 0 | 1): string {
  return Object.entries(COLORS)
    .map(([name, pair]) =>
      `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}:${pair[scheme]}`
    )
    .join(";");
}

/** The style sheet of all pages. */
export const STYLE: string = `
:root{color-scheme:light dark;${toCustomProperties(0)}}
@media (prefers-color-scheme:dark){:root{${toCustomProperties(1)}}}
*,::before,::after{box-sizing:border-box}
html{font:100%/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;-webkit-text-size-adjust:100%}
body{margin:0;min-height:100vh;display:flex;flex-direction:column;background:var(--page);color:var(--text);overflow-wrap:anywhere}
h1,h2,p,dl,dd,ul,fieldset{margin:0;padding:0}
h1{font-size:1.5rem;line-height:1.25;letter-spacing:-.011em;font-weight:650}
h2{font-size:1rem;line-height:1.4;font-weight:650}
a{color:var(--link);text-underline-offset:.15em}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px;border-radius:4px}
main:focus,h1:focus{outline:none}
.unseen{position:absolute;width:1px;height:1px;margin:-1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:1rem;top:-4rem;z-index:1;padding:.5rem 1rem;background:var(--surface);border:1px solid var(--edge);border-radius:6px}
.skip:focus{top:.5rem}
.bar{border-bottom:1px solid var(--line);background:var(--surface)}
.bar>div,main,.foot>div{width:100%;max-width:72rem;margin:0 auto;padding:0 1.25rem}
.bar>div{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;padding-top:.75rem;padding-bottom:.75rem}
.bar .brand{font-weight:650}
.bar .who{margin-left:auto;color:var(--muted);font-size:.875rem}
.bar .who b{color:var(--text);font-weight:600}
.bar .who,.bar form{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:center}
.bar form button{min-height:2rem;padding:.125rem .75rem;font-size:.875rem;background:var(--surface);border-color:var(--edge);color:var(--text)}
main{flex:1;padding-top:2rem;padding-bottom:3rem;display:flex;flex-direction:column;gap:1.5rem}
main>*,.panel>*{min-width:0}
.foot{border-top:1px solid var(--line);color:var(--muted);font-size:.8125rem}
.foot>div{padding-top:.875rem;padding-bottom:.875rem;display:flex;flex-wrap:wrap;gap:.25rem 1.5rem}
.foot .stale{color:var(--bad);font-weight:600}
.head{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center}
.lead{font-size:1.0625rem;max-width:56rem}
.lead b{font-weight:650}
.lead .elevated{padding:0 .3em}
.reason{padding-left:.75rem;border-left:4px solid var(--line)}
q{quotes:"“" "”"}
.muted,.note{color:var(--muted)}
.note{font-size:.875rem;max-width:46rem}
.panel{background:var(--surface);border:1px solid var(--line);border-radius:10px;padding:1.25rem;display:flex;flex-direction:column;gap:.875rem}
.count{font-variant-numeric:tabular-nums;white-space:nowrap}
.status{display:inline-flex;gap:.4em;align-items:center;white-space:nowrap;padding:.1rem .6rem;border:1px solid;border-radius:999px;font-size:.8125rem;font-weight:650;line-height:1.5}
.status-pending{color:var(--warn);background:var(--warn-well)}
.status-approved{color:var(--good);background:var(--good-well)}
.status-denied{color:var(--bad);background:var(--bad-well)}
.status-expired{color:var(--idle);background:var(--idle-well)}
.elevated{display:inline-block;max-width:100%;line-height:1.4;color:var(--warn);background:var(--warn-well);border:1px solid;border-radius:4px;padding:0 .35em;font-weight:650;}
.odd{display:inline-block;line-height:1.3;color:var(--bad);background:var(--bad-well);border:1px solid;border-radius:3px;margin:0 1px;padding:0 .2em;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.875em;font-style:normal;font-weight:600}
.foreign{text-decoration:underline dotted var(--warn);text-decoration-thickness:2px;text-underline-offset:.2em}
.rest{color:var(--muted);font-style:italic;white-space:nowrap}
code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.9375em}
code .raw{white-space:pre-wrap}
.command{display:block;max-height:24rem;overflow:auto;padding:.875rem 1rem;background:var(--well);border:1px solid var(--line);border-radius:6px;font-size:1rem;line-height:1.6;tab-size:4}
.warning{color:var(--warn);background:var(--warn-well);border-left:4px solid;border-radius:4px;padding:.625rem .875rem;font-size:.9375rem}
.warning ul{padding-left:1.25rem;margin:.25rem 0}
.problem{color:var(--bad);background:var(--bad-well);border-left:4px solid;border-radius:4px;padding:.625rem .875rem}
.facts{display:grid;grid-template-columns:minmax(9rem,max-content) 1fr;gap:.5rem 1.5rem}
.facts>div{display:contents}
.facts dt{color:var(--muted)}
.facts dd{min-width:0}
.facts ul{list-style:none}
.changes{max-height:24rem;overflow:auto}
.key{gap:.25rem 1.5rem}
.command.head{max-height:12rem;white-space:pre-wrap}
details>.command.head{max-height:24rem}
.key code{word-break:break-all}
::placeholder{color:var(--muted);opacity:1}
.choices{display:flex;flex-wrap:wrap;gap:.75rem 1.5rem}
.choices>div{display:flex;flex-direction:column;gap:.375rem;flex:1 1 16rem}
.choices button{align-self:start}
.comment{display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:center;color:var(--muted);font-size:.875rem}
.comment input{flex:1 1 12rem;min-width:0}
table{width:100%;table-layout:fixed;background:var(--surface);border:1px solid var(--line);border-radius:10px;border-spacing:0;border-collapse:separate;overflow:hidden;margin-top:.625rem}
th,td{padding:.625rem .75rem;text-align:left;vertical-align:top;border-top:1px solid var(--line)}
thead th{border-top:0;color:var(--muted);font-size:.8125rem;font-weight:600;white-space:nowrap}
th:nth-child(2){width:13%}
th:nth-child(3){width:14%}
th:nth-child(4){width:18%}
th:nth-child(5){width:15%}
th.go{width:6rem}
td code .raw{white-space:normal}
td .elevated{font-size:.9375rem}
td .sub{display:block;color:var(--muted);font-size:.875rem}
.empty{background:var(--surface);border:1px solid var(--line);border-radius:10px;padding:2rem 1.25rem;color:var(--muted);text-align:center}
form{display:flex;flex-direction:column;gap:1.25rem}
button{font:inherit;font-weight:600;min-height:2.75rem;padding:.5rem 1.25rem;border-radius:6px;border:1px solid;cursor:pointer}
button.approve{background:var(--approve);border-color:var(--approve);color:var(--on-approve)}
button.deny{background:var(--deny);border-color:var(--on-deny);color:var(--on-deny)}
button.learn{background:var(--surface);border-color:var(--approve);color:var(--good)}
button:hover{text-decoration:underline;text-underline-offset:.2em}
button:disabled{opacity:.55;cursor:default;text-decoration:none}
fieldset{border:0;border-top:1px solid var(--line);padding-top:1.25rem;display:flex;flex-direction:column;gap:.875rem}
legend{float:left;padding:0;font-weight:650}
legend+*{clear:both}
.times{display:flex;flex-wrap:wrap;gap:.75rem 1rem;align-items:end}
.times label{display:flex;flex-direction:column;gap:.25rem;font-size:.875rem;color:var(--muted)}
.comment input,.times input,.times select{font:inherit;font-size:1rem;color:var(--text);background:var(--surface);border:1px solid var(--edge);border-radius:6px;min-height:2.75rem;padding:.375rem .75rem}
.times input{width:7rem}
@supports selector(:has(*)){.times:not(:has([value=other]:checked)) .other{display:none}}
@media (max-width:60rem){
main{padding-top:1.25rem}
.bar .who{margin-left:0}
.facts{display:block}
.facts>div{display:block;margin-bottom:.75rem}
.facts dt{font-size:.875rem}
table,tbody,tr,td{display:block;width:100%}
table{background:none;border:0;border-radius:0}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
tr{background:var(--surface);border:1px solid var(--line);border-radius:10px;padding:.75rem 1rem;margin-bottom:.75rem}
td{border:0;padding:.25rem 0}
td[data-label]::before{content:attr(data-label) ": ";color:var(--muted)}
td.go a{display:inline-block;padding:.625rem 0;font-weight:600}
}
@media (max-width:30rem){
.bar>div,main,.foot>div{padding-left:1rem;padding-right:1rem}
.bar>div{padding-top:.5rem;padding-bottom:.5rem}
.bar .brand{display:none}
.bar .who{margin-left:auto}
main{padding-top:.75rem;padding-bottom:1.5rem;gap:.75rem}
h1{font-size:1.25rem}
.lead{font-size:1rem;line-height:1.4}
.brief{padding:.75rem;gap:.5rem}
.panel.brief>h2{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.command{padding:.5rem .625rem;max-height:9rem;line-height:1.45;font-size:.9375rem}
.command.head{max-height:4rem}
.changes,details>.command.head{max-height:18rem}
.key{display:grid;grid-template-columns:max-content 1fr;gap:.125rem .75rem;font-size:.9375rem;line-height:1.4}
.key>div{display:contents}
.key dt{font-size:inherit}
form{gap:.625rem}
.note{font-size:.8125rem;line-height:1.35}
.choices{gap:.625rem;flex-wrap:nowrap}
.choices>div{flex:1 1 0;min-width:0;gap:.25rem}
button{font-size:.875rem}
.choices button{align-self:stretch;padding:.5rem .25rem}
fieldset{padding-top:.625rem;gap:.375rem}
.times{gap:.5rem}
.times label:not(.other){flex-direction:row;align-items:center;gap:.5rem}
.times button{flex:1 1 auto;padding:.5rem .25rem}
.times select{padding:.25rem .25rem}
.panel.brief:has(>.command){padding:0;background:none;border:0}
.panel.brief>.note{overflow-wrap:anywhere}
.panel.brief .note code{font-size:.75rem}
.reason{font-size:.9375rem;line-height:1.4}
}
@media (forced-colors:active){.odd,.status,.elevated{display:inline-block;max-width:100%;line-height:1.4;border:1px solid}}
@media print{
:root{color-scheme:light;${toCustomProperties(0)}}
.bar,.skip,form,.unseen,td.go,th.go{display:none}
body,.panel,table{background:none}
.command,.changes{max-height:none;overflow:visible}
.panel,tr{break-inside:avoid}
}
`.replaceAll("\n", "");
