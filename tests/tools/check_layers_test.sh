#!/usr/bin/env bash
# tools/check_layers accepts a clean small house and names each planted violation.
set -euo pipefail

# Words of planted tests, put together here so that a search for tests that are skipped finds none that is not.
skips=GTEST_''SKIP off=DISABLED''_
check=$(readlink -f "$(dirname "$0")/../../tools/check_layers")
house=$(mktemp -d)
trap 'rm -rf "$house"' EXIT
passed=0 failed=0

build_house() {
  rm -rf "${house:?}"/*
  mkdir -p "$house"/src/trireme/{base,plan,plan/mesh,plan/check,comm,exec} "$house"/apps/{trireme,worker}
  cat >"$house/CMakeLists.txt" <<'CMAKE'
trireme_component(base LIBS fmt::fmt)
trireme_component(plan DEPS base)
trireme_component(plan/mesh DEPS base)
trireme_component(plan/check PART DEPS plan)
trireme_torch_component(comm DEPS base)
trireme_torch_component(exec DEPS
                        plan comm)
CMAKE
  echo '#pragma once' | tee "$house"/src/trireme/{base/a,plan/p,plan/mesh/m,plan/check/k,comm/c,exec/e}.h >/dev/null
  echo 'std::string text_of(int number);' >>"$house/src/trireme/base/a.h"
  cat >"$house/src/trireme/exec/e.cc" <<'CODE'
#include "trireme/exec/e.h"
#include <ATen/core/Tensor.h>
#include "trireme/base/a.h"
#include "trireme/comm/c.h"
#include "trireme/plan/p.h"
void at_exit(int); void abort(int); // a comment may say getenv("X"), std::cout and exit(1)
int printed = snprintf(nullptr, 0, "x");
struct Rows {
};
  std::string one = text_of(1);
CODE
  printf '%s\n' '#include "trireme/plan/p.h"' 'namespace trireme::plan {' >>"$house/src/trireme/plan/check/k.h"
  echo 'const char* home = getenv("HOME");' >"$house/apps/trireme/main.cc"
  echo '#include "trireme/exec/e.h"' >"$house/apps/worker/main.cc"
  mkdir -p "$house"/tests/{harness,base}
  # The one skip that the check allows, as tests/harness/needs.h has it.
  echo "#define TRIREME_NEEDS $skips()" >"$house/tests/harness/needs.h"
  echo 'TEST(A, B) { TRIREME_NEEDS; }' >"$house/tests/base/a_test.cc"
}

verdict() { if [ "$1" = yes ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "not as wanted: $2"; fi; }

# plant FILE LINE MESSAGE: with LINE in FILE the check must fail and say MESSAGE of that file.
plant() {
  build_house
  echo "$2" >>"$house/$1"
  local said as_wanted=no
  if said=$("$check" "$house"); then said="(accepted)"; fi
  if [[ $said == "$1:"*"$3"* ]]; then as_wanted=yes; fi
  verdict "$as_wanted" "$1 with '$2' should say '$3', said: $said"
}

build_house
if said=$("$check" "$house"); then verdict yes; else verdict no "the clean house: $said"; fi

plant src/trireme/base/a.h '#include "trireme/plan/p.h"' 'base may not use component plan, which lies above it'
plant src/trireme/exec/f.cc 'struct Rows { int n; };' 'another Rows is in src/trireme/exec/e.cc'
plant src/trireme/exec/f.cc 'using Rows = long;' 'another Rows is in src/trireme/exec/e.cc'
plant src/trireme/exec/f.cc 'int text_of(Rows rows) {' 'this text_of hides that of base from src/trireme/exec/e.cc'
plant src/trireme/plan/p.h '#  include "trireme/comm/c.h"' 'plan may not use component comm'
plant src/trireme/comm/c.h '#include "trireme/plan/p.h"' 'comm may not use component plan'
plant src/trireme/plan/p.h '#include "trireme/plan/mesh/m.h"' 'plan may not use component plan/mesh'
plant src/trireme/plan/mesh/m.h '#include "trireme/plan/p.h"' 'plan/mesh may not use component plan'
plant src/trireme/plan/mesh/m.h 'namespace trireme::plan {' 'follows its folder'
plant src/trireme/plan/check/l.h 'namespace trireme::check {' 'follows its folder'
plant src/trireme/plan/check/k.h '#include "trireme/exec/e.h"' 'plan/check may not use component exec'
plant src/trireme/plan/p.h '#include "trireme/base/gone.h"' 'no such file'
plant src/trireme/plan/p.h '#include "p.h"' 'full name'
plant src/trireme/attic.h '' 'not listed'
plant src/trireme/plan/p.h '#include <ATen/core/Tensor.h>' 'needs no LibTorch'
plant apps/trireme/main.cc '#include <torch/types.h>' 'needs no LibTorch'
plant apps/trireme/main.cc '#include "trireme/exec/e.h"' 'which needs LibTorch'
plant src/trireme/exec/e.cc '#include <torch/torch.h>' 'narrow header'
plant src/trireme/exec/e.cc 'if (family == config::Family::kGpt) return;' 'names a family'
plant apps/worker/main.cc 'using enum config::Family;' 'names a family'
plant src/trireme/exec/e.cc 'auto home = std::getenv("HOME");' 'belong to apps/'
plant src/trireme/exec/e.cc 'tensor.register_hook(f);' 'the plan'
plant apps/worker/main.cc 'module.register_forward_pre_hook(f);' 'the plan'
plant src/trireme/exec/e.cc 'std::cout << 1;' 'prints nothing'
plant src/trireme/exec/e.cc 'printf("x");' 'prints nothing'
plant src/trireme/exec/e.cc 'std::fprintf(stderr, "x");' 'prints nothing'
plant src/trireme/exec/e.cc 'std::exit(1);' 'never exits'
plant src/trireme/exec/e.cc '  exit(1);' 'never exits'
plant src/trireme/exec/e.cc 'std::abort();' 'never exits'
plant src/trireme/exec/e.cc 'if (x) ::_exit(1);' 'never exits'
# One skipped and one switched off without a reason.
plant tests/base/a_test.cc "TEST(A, C) { $skips(); }" 'without the name of what it needs'
plant tests/base/a_test.cc "TEST(A, ${off}C) {}" 'without the name of what it needs'
plant CMakeLists.txt 'trireme_component(sim DEPS later)' 'not named before it'
plant CMakeLists.txt 'trireme_component(sim DEPS comm)' 'needs no LibTorch'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
