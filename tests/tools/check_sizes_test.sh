#!/usr/bin/env bash
# tools/check_sizes accepts a tree at its limits and names each planted violation; a listed size may only shrink, and with it the list.
set -euo pipefail

check=$(readlink -f "$(dirname "$0")/../../tools/check_sizes")
house=$(mktemp -d)
trap 'rm -rf "$house"' EXIT
base=$house/src/trireme/base
passed=0 failed=0

# lines COUNT TEXT: TEXT on COUNT lines.
lines() { local i; for ((i = 0; i < $1; ++i)); do echo "$2"; done; }

# function FIRST BODY [INDENT]: a function whose first line is FIRST, with BODY lines between its braces.
function_of() { echo "${3:-}$1 {"; lines "$2" "${3:-}  f();"; echo "${3:-}}"; }

build_house() {
  rm -rf "${house:?}"/*
  mkdir -p "$base" "$house"/apps/trireme "$house"/tests/base
  : >"$house/list"
  { echo '#pragma once'; lines 149 'int a;'; } >"$base/a.h"
  {
    printf '%s\n' '#include "trireme/base/a.h"' 'namespace trireme {' 'namespace {' ''
    function_of 'int longest(int a)' 58
    # Neither of these is a function: a table, a type, a macro, a raw string.
    echo 'const Row kRows[] = {'; lines 70 '    {1},'; echo '};'
    echo 'struct Record {'; lines 70 '  int member = 0;'; function_of 'int member() const' 58 '  '; echo '};'
    echo '#define MANY \'; lines 8 '  f(); \'; echo ''
    echo 'constexpr char kText[] = R"x('; lines 70 '}'; echo ')x";'
    printf '%s\n' '}  // namespace' '}  // namespace trireme'
  } >"$base/a.cc"
  local left=$((400 - $(wc -l <"$base/a.cc")))
  lines "$left" '//' >>"$base/a.cc"
  for ((i = 2; i < 40; ++i)); do touch "$base/f$i.h"; done
}

# says FILE MESSAGE WHAT: the check must fail and say MESSAGE of FILE; with MESSAGE "fine" it must accept.
says() {
  local said as_wanted=no
  if said=$("$check" "$house" "$house/list"); then said=fine; fi
  if [ "$2" = fine ] && [ "$said" = fine ]; then as_wanted=yes; fi
  if [[ $said == "$1"*"$2"* && $said != *$'\n'* ]]; then as_wanted=yes; fi
  if [ "$as_wanted" = yes ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "not as wanted: $3 should give '$2' of $1, said: $said"; fi
}

build_house
says '' fine 'the tree at its limits'

build_house; echo 'int b;' >>"$base/a.h"
says src/trireme/base/a.h:1: 'a header has 151, at most 150' 'a line more in a header'
echo 'longer src/trireme/base/a.h 151' >"$house/list"
says '' fine 'a listed header'
echo 'int b;' >>"$base/a.h"
says src/trireme/base/a.h:1: 'has grown to 152 from 151' 'a listed header that grows'
echo 'longer src/trireme/base/a.h 153' >"$house/list"
says src/trireme/base/a.h:1: 'write that instead of 153' 'a listed header that shrinks'
sed -i 3,4d "$base/a.h"
says src/trireme/base/a.h:1: 'delete its line' 'a listed header that is mended'
rm "$base/a.h"; sed -i 1d "$base/a.cc"
says src/trireme/base/a.h:1: 'is no more' 'a listed header that is gone'

build_house; echo '//' >>"$base/a.cc"
says src/trireme/base/a.cc:1: 'a source has 401, at most 400' 'a line more in a source'

build_house; function_of 'std::vector<int> Units::gather(int a)' 59 >"$base/f2.h"
says src/trireme/base/f2.h:1: 'function Units::gather has 61, at most 60' 'a line more in a function'
echo 'longer src/trireme/base/f2.h:Units::gather 61' >"$house/list"
says '' fine 'a listed function'
# The second of two functions of one name has a mark of its own.
function_of 'std::vector<int> Units::gather(long a)' 69 >>"$base/f2.h"
says src/trireme/base/f2.h:62: 'function Units::gather+ has 71' 'an overload'

build_house; { echo 'class Deep {'; echo ' public:'; function_of 'void inner() override' 59 '  '; echo '};'; } >"$base/f2.h"
says src/trireme/base/f2.h:3: 'function inner has 61' 'a long member within its class'
build_house; { echo 'Units::Units(int a,'; echo '             int b)'; echo '    : a_(a) {'; lines 57 '  f();'; echo '}'; } >"$base/f2.h"
says src/trireme/base/f2.h:1: 'function Units::Units has 61' 'a signature on several lines'
build_house; { echo 'const auto kRun = [](int a) {'; lines 59 '  f();'; echo '};'; } >"$base/f2.h"
says src/trireme/base/f2.h:1: 'function kRun has 61' 'a long lambda at namespace scope'
build_house; function_of 'TEST(Suite, Name)' 59 >"$house/tests/base/a_test.cc"
says tests/base/a_test.cc:1: 'function Suite.Name has 61' 'a long test'

build_house; touch "$base/f40.h"
says src/trireme/base:1: 'a folder has 41, at most 40' 'a file more in a folder of the library'
build_house; for ((i = 0; i < 41; ++i)); do touch "$house/apps/trireme/$i.cc" "$house/tests/base/$i.cc"; done
says apps/trireme:1: 'a folder has 41' 'a file more in a folder of apps, and one of tests, which has no limit'

# Lines of a component without those of the component inside it; the file in the folder of neither counts for none.
build_house; mkdir -p "$base"/os/deep "$base/more" "$house"/src/trireme/other
printf '%s\n' 'trireme_component(base)' 'trireme_component(base/os DEPS base)' >"$house/CMakeLists.txt"
for ((i = 2; i < 21; ++i)); do lines 390 '//' | tee "$base/more/s$i.cc" "$house/src/trireme/other/s$i.cc" >"$base/os/deep/s$i.cc"; done
lines 40 '//' >"$base/f2.h"
says '' fine 'components of 8,000 and 7,410 lines'
echo '//' >>"$base/f2.h"
says src/trireme/base:1: 'a component has 8001, at most 8000' 'a line more in a component'
lines 391 '//' | tee "$base/os/deep/t.cc" >"$base/os/t.cc"; rm "$base/more/s2.cc"
says src/trireme/base/os:1: 'a component has 8192, at most 8000' 'a component inside another'

build_house; echo '#include "trireme/base/f3.h"' >"$base/f2.h"; echo '#include "trireme/base/f4.h"' >"$base/f3.h"
says '' fine 'a chain of includes'
echo '#  include "f2.h"' >"$base/f4.h"
says src/trireme/base/f 'files include each other: src/trireme/base/f' 'a circle of three files'
build_house; echo '#include "apps/trireme/a.h"' >"$house/apps/trireme/a.h"
says apps/trireme/a.h:1: 'files include each other: apps/trireme/a.h > apps/trireme/a.h' 'a file that includes itself'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
