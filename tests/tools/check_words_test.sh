#!/usr/bin/env bash
# tools/check_words accepts plain pages and sources, and names each planted violation.
set -euo pipefail

check=$(readlink -f "$(dirname "$0")/../../tools/check_words")
house=$(mktemp -d)
trap 'rm -rf "$house"' EXIT
passed=0 failed=0

words() { local i; for ((i = 0; i < $1; ++i)); do printf 'word '; done; }

build_house() {
  rm -rf "${house:?}"/*
  mkdir -p "$house"/{docs/results,tools,src/trireme/config/fields,src/trireme/plan,apps/trireme}
  cat >"$house/docs/page.md" <<'PAGE'
# Elastic launch

The launcher restarts a rank that fails. Tables, code and "what is told behind quotations" are free:

    trireme launch --and-this-line-is-code behind -- train recipes/gpt_tiny.yaml --set run.steps=100 --set run.log_every=1000

| key in a very long row of a table, which cannot be broken and is therefore free of the limit on columns | `behind` |
|---|---|
| a | 1 |

> Told by somebody else, behind everything.

- `tiers[].rate` (a number from 0 to 1e+16, alone or in TB/s, GB/s, MB/s, Gb/s; default `0`): Told by whoever prints the key.

- A user who reads this knows the field. It halves the memory, and the feature is turned on.
- Training stands still where there is none, and the disk has no room.
- [A link whose target may be long](https://example.org/behind/a/page/that/nobody/reads/whose/address/is/longer/than/120/columns/of/text.html)
PAGE
  echo "The step is fast." >"$house/README.md"
  echo "A paragraph of measurements: $(words 45 | fold -s -w 80)." >"$house/docs/results/speed.md"
  cat >"$house/src/trireme/config/fields/fields_run.cc" <<'CODE'
// Keys of a run.
auto a = count(KEY(run.steps), "Number of steps (default 100).");
CODE
  cat >"$house/src/trireme/plan/plan.h" <<'CODE'
// Instructions of a rank, in the order of their execution.
struct Plan { int behind = 0; };  // names are free
CODE
  printf '%s\n' 'void f() { fail("model.heads={} does not divide model.hidden={}. "' '"Choose a divisor such as {}.", 7, 64, 8); }' >"$house/src/trireme/plan/plan.cc"
  printf '%s\n' 'auto help = R"(Trains a job.' '' 'Examples:' "  trireme train behind $(words 50)" ')";' >"$house/apps/trireme/train.cc"
  echo "# exceptions" >"$house/tools/check_words.allow"
}

# accepts NAME [OPTION..]
accepts() {
  local output
  if output=$("$check" --root "$house" --all "${@:2}"); then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "$1: refused:"$'\n'"$output"
  fi
}

# refuses NAME PATTERN: fails and prints a line that matches.
refuses() {
  local output
  if output=$("$check" --root "$house" --all "${@:3}"); then
    failed=$((failed + 1))
    echo "$1: accepted"
  elif ! grep -qE -- "$2" <<<"$output"; then
    failed=$((failed + 1))
    echo "$1: '$2' is not in:"$'\n'"$output"
  else passed=$((passed + 1)); fi
}

# page NAME SENTENCE PATTERN: the sentence is refused in a page, and accepted where the page is skipped.
page() {
  build_house
  printf '\n%s\n' "$2" >>"$house/docs/page.md"
  refuses "$1" "$3"
  echo "skip docs/page.md" >>"$house/tools/check_words.allow"
  accepts "$1, skipped"
}

build_house
accepts "the clean house"

page behind "The copy runs behind the computation." "docs/page.md:[0-9]+: 'behind'"
page beside "A thread beside it writes." "'beside'"
page anew "The rank starts anew." "'anew'"
page alike "Both are alike." "'alike'"
page told "The agent is told of it." "'told'"
page "made up" "The samples are made up." "'made up'"
page "go on" "The run goes on." "'goes on'"
page "go back" "A node goes back whole." "'goes back'"
page halves "Schedules with halves differ." "'with halves'"
page stands "The file stands there." "'stands'"
page most "Memory at its most." "'at its most'"
page "but for" "Equal but for the seed." "'but for'"
page again "The node is computed again." "'computed again'"
page turned "Keys are turned by position." "'are turned'"
page none "The sum is none." "'is none'"
page whoever "It stops whoever hangs." "'whoever'"
page nobody "The store serves nobody." "'nobody'"
page he "The rank fails when he waits." "'he'"
page who "A rank who waits is idle." "'who'"
page pieces "Parameters are cut into pieces." "'pieces'"
page room "Each room has a test." "'room'"
page table "| a | told |" "'told'"
page title "## Who may speak" "'Who'"
page "broken line" $'The run\ngoes\non.' "'goes on'"
page clause "What the rank computes is a list." "a clause as the subject"
page "41 words" "A $(words 40 | fold -s -w 100)." "a sentence of 41 words"
page columns "A $(printf 'x%.0s' {1..60}) $(printf 'y%.0s' {1..60}) z." "126 columns"
page "many long sentences" "A $(words 26 | fold -s -w 100). B $(words 26 | fold -s -w 100)." "2 over 25 words"

build_house
printf '\nA %s.\n' "$(words 26 | fold -s -w 100)" >>"$house/docs/page.md"
accepts "one long sentence"

build_house
echo "The loss is told." >>"$house/docs/results/speed.md"
refuses "results have banned words" "docs/results/speed.md:[0-9]+: 'told'"

build_house
sed -i 's/Number of/Told number of/' "$house/src/trireme/config/fields/fields_run.cc"
refuses "a key" "fields_run.cc:2: 'Told'"
echo "skip keys" >>"$house/tools/check_words.allow"
accepts "a key, skipped"

build_house
sed -i 's/Number of steps/Of the run/' "$house/src/trireme/config/fields/fields_run.cc"
refuses "a key that begins with of" "relative clause or a pronoun"

build_house
sed -i 's/Choose/Whoever choose/' "$house/src/trireme/plan/plan.cc"
refuses "an error" "plan.cc:1: 'Whoever'"
refuses "an error, by file" "plan.cc:1: 'Whoever'" "$house/src/trireme/plan/plan.cc"
echo "skip src/trireme/plan" >>"$house/tools/check_words.allow"
accepts "an error, folder skipped"

build_house
sed -i 's/Trains a job/Trains a job anew/' "$house/apps/trireme/train.cc"
refuses "a help text" "train.cc:1: 'anew'"

build_house
sed -i 's/of a rank/of a rank, none/; s/execution/execution, behind the load/' "$house/src/trireme/plan/plan.h"
refuses "a comment" "plan.h:1: 'behind'"
echo "skip comments" >>"$house/tools/check_words.allow"
accepts "a comment, skipped"

# comment NAME TEXT [PATTERN]: the text in a header is refused with a line that matches, or accepted.
comment() {
  build_house
  echo "$2" >>"$house/src/trireme/plan/plan.h"
  if [ $# = 3 ]; then refuses "$1" "$3"; else accepts "$1"; fi
}
sentence="A $(words 20)"
comment "a comment of 41 words" "// A $(words 40)" "plan.h:3: a sentence of 41 words"
comment "a comment over two lines" $'// The copy runs\n// behind it.' "plan.h:3: 'behind'"
comment "a comment after code" "int ranks = 0;  // who waits" "plan.h:3: 'who'"
comment "many long comments" "// A $(words 25)"$'\n\n'"// B $(words 26)" "2 over 25 words"
comment "comments of two declarations" "int a = 0;  // $sentence"$'\n'"// $sentence"
comment "items of a list" "// - $sentence"$'\n'"// - $sentence"
comment "rows of a table" "//   one  $sentence"$'\n'"//   two  $sentence"
build_house
echo "// The rank starts anew." >>"$house/src/trireme/plan/plan.cc"
refuses "a comment of a source" "plan.cc:3: 'anew'"
comment "a row of a table" "//   one  behind" "plan.h:3: 'behind'"

build_house
echo "Hosts behind a NAT need a proxy." >>"$house/README.md"
refuses "an exception is needed" "README.md:[0-9]+: 'behind'"
echo "README.md: behind a NAT - the field's own words" >>"$house/tools/check_words.allow"
accepts "an exception"
echo "README.md: behind a wall - never written" >>"$house/tools/check_words.allow"
refuses "an exception without use" "'behind a wall' is not in README.md"

build_house
echo "behind is right" >>"$house/tools/check_words.allow"
refuses "a line of the list that says nothing" "neither"
build_house
echo "skip docs/gone.md" >>"$house/tools/check_words.allow"
refuses "a page that is gone" "does not exist"
build_house
echo "The loss is told." >>"$house/README.md"
for i in {1..61}; do echo "README.md: told - reason $i"; done >>"$house/tools/check_words.allow"
refuses "too many exceptions" "at most 60"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
