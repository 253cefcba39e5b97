#!/usr/bin/env bash
# tools/check_docs accepts a small tree whose docs are right, and names each planted mistake.
set -euo pipefail

# Put together here, so that the check does not find it in this file.
todo=TO''DO
check=$(readlink -f "$(dirname "$0")/../../tools/check_docs")
house=$(mktemp -d)
trap 'rm -rf "$house"' EXIT
passed=0 failed=0

build_house() {
  rm -rf "${house:?}"/* "$house"/.ci
  mkdir -p "$house"/{.ci,tools,cmake,docs/results,tests/plan,tests/extending} "$house"/src/trireme/{base,plan}
  cat >"$house/CMakeLists.txt" <<'CMAKE'
trireme_component(base LIBS fmt::fmt)
trireme_component(plan LIBS fmt::fmt
                  DEPS base)
CMAKE
  printf '%s\n' '# name purpose' 'base  libfmt-dev  text' >"$house/tools/packages.txt"
  printf '%s\n' '| package | purpose |' '|---|---|' '| `libfmt-dev` | text |' >"$house/docs/dependencies.md"
  printf '%s\n' '| `base` | L0 | files |' '| `plan` | L1 | lists |' >"$house/docs/architecture.md"
  printf '%s\n' '| `base` | files | nothing |' >"$house/src/trireme/base/README.md"
  printf '%s\n' '| `plan` | lists | base |' '' 'More is in [the docs](../../../docs/architecture.md#plan).' >"$house/src/trireme/plan/README.md"
  echo 'TEST(Plan, IsRight) {}' >"$house/tests/plan/plan_test.cc"
  echo 'Checked by `Plan.IsRight` in [plan/plan_test.cc](../../tests/plan/plan_test.cc).' >"$house/docs/results/oracles.md"
  printf '%s\n' 'int before;' '// [rule]' 'int rule = [](int) { return 1; }(1);' '' '// Of a rule.' 'int other;' '// [end]' >"$house/tests/extending/rule_test.cc"
  printf '%s\n' '```cpp tests/extending/rule_test.cc rule' 'int rule = [](int) { return 1; }(1);' '' '// Of a rule.' 'int other;' '```' >"$house/docs/extending.md"
  touch "$house/dev" "$house/.ci/run" "$house/cmake/torch.cmake"
}

# accepts WHAT
accepts() {
  local said
  if said=$("$check" "$house"); then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$1: refused: $said"; fi
}

# plant FILE LINE MESSAGE: adds LINE to FILE, for which the check is to say MESSAGE.
wanted=()
plant() {
  echo "$2" >>"$house/$1"
  wanted+=("$3")
}

# refuses: the check fails, with the message of each planted mistake.
refuses() {
  local said message
  if said=$("$check" "$house"); then failed=$((failed + 1)); echo "accepted: ${wanted[*]}"; fi
  for message in "${wanted[@]}"; do
    if [[ $said == *"$message"* ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "'$message' is not in: $said"; fi
  done
  wanted=()
  build_house
}

build_house
accepts 'the right tree'

plant docs/dependencies.md '| `zlib1g-dev` | images |' '< zlib1g-dev images'
plant tools/packages.txt 'base  libpng-dev  images' '> libpng-dev images'
plant docs/architecture.md '| `comm` | L2 | sums |' '< comm'
plant CMakeLists.txt 'trireme_torch_component(exec DEPS plan)' '> exec: plan'
plant src/trireme/plan/README.md '| `base` | files | nothing |' 'src/trireme/plan/README.md: a component of base'
plant src/trireme/base/README.md "$(printf 'line\n%.0s' {1..25})" 'src/trireme/base/README.md: more than 25 lines'
plant docs/results/oracles.md '[page](gone.md)' 'docs/results/oracles.md: link to gone.md: no such file'
plant docs/results/oracles.md '`Plan.IsGone` in [plan/plan_test.cc](../../tests/plan/plan_test.cc)' 'Plan.IsGone is no test of'
plant dev 'curl https://example.org' 'dev:1:curl https://example.org: scripts name no host'
plant docs/architecture.md "$todo" "docs/architecture.md:4:$todo: finish it or leave it out"

refuses

sed -i 's/| base |/| nothing |/' "$house/src/trireme/plan/README.md"
wanted+=('> plan: base')
rm "$house/src/trireme/base/README.md"
wanted+=('src/trireme/base: no README.md')
refuses

plant docs/extending.md "$(printf '%s\n' '```cpp' 'int own;' '```')" 'docs/extending.md:7: an example in C++ that names no file'
plant tests/extending/rule_test.cc "$(printf '%s\n' '// [more]' 'int more;' '// [end]')" '> tests/extending/rule_test.cc more'
refuses

sed -i 's/^int other;/int another;/' "$house/docs/extending.md"
wanted+=('docs/extending.md:1: differs from region rule of tests/extending/rule_test.cc' '< int another;' '> int other;')
refuses

plant docs/extending.md "$(printf '%s\n' '```cpp tests/extending/gone_test.cc rule' 'int own;' '```')" '< int own;'
refuses

# Links to other hosts, and words that only contain a forbidden one, are free.
echo "[site](https://example.org/page) and ${todo}S" >>"$house/docs/architecture.md"
accepts 'a link to a host'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
