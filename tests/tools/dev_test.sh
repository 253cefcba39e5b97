#!/usr/bin/env bash
# ./dev test and ./dev lint --quick run every check that needs no build, and fail before they build where one does.
set -euo pipefail

root=$(readlink -f "$(dirname "$0")/../..")
house=$(mktemp -d)
trap 'rm -rf "$house"' EXIT
passed=0 failed=0

# A repository whose tools, cmake and ctest only say that they were called; clang-format is of version VERSION and refuses
# sources with the word "crooked".
build_house() {
  local name
  rm -rf "${house:?}"/* "$house/.git"
  mkdir -p "$house"/{tools,bin,src}
  cp "$root/dev" "$house/dev"
  : >"$house/tools/packages.txt"
  for name in layers sizes docs words; do
    printf '#!/bin/sh\necho "%s called"\n[ ! -e "$(dirname "$0")/../broken_%s" ]\n' "$name" "$name" >"$house/tools/check_$name"
  done
  for name in cmake ctest; do printf '#!/bin/sh\necho "%s called"\n' "$name" >"$house/bin/$name"; done
  cat >"$house/bin/clang-tidy" <<CODE
#!/bin/sh
if [ "\$1" = --version ]; then printf '%s\n' LLVM "  LLVM version $1.0.6"; exit 0; fi
echo "clang-tidy called"
! grep -q suspect "$house"/src/*
CODE
  cat >"$house/bin/clang-format" <<CODE
#!/bin/sh
if [ "\$1" = --version ]; then echo "Debian clang-format version $1.0.6"; exit 0; fi
found=\$(grep -l -e crooked -- "\$@" 2>/dev/null)
[ -z "\$found" ] || { echo "\$found"; exit 1; }
CODE
  chmod +x "$house"/tools/check_* "$house"/bin/*
  mkdir -p "$house/build/release/Testing/Temporary"
  : >"$house/build/release/Testing/Temporary/LastTest.log"
  echo 'int a;' >"$house/src/a.cc"
  git -C "$house" init --quiet
  git -C "$house" add src
}

# wants COMMAND CODE WORD...: the exit code, each WORD in what it prints, and each word after "-" not in it.
wants() {
  local command=$1 wanted=$2 said code=0 word as_wanted=yes absent=no
  shift 2
  # shellcheck disable=SC2086
  said=$(PATH=$house/bin:$PATH "$house/dev" $command 2>&1) || code=$?
  [ "$code" = "$wanted" ] || as_wanted=no
  for word in "$@"; do
    if [ "$word" = - ]; then absent=yes
    elif [[ $said == *"$word"* ]]; then [ "$absent" = no ] || as_wanted=no
    else [ "$absent" = yes ] || as_wanted=no; fi
  done
  if [ "$as_wanted" = yes ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "not as wanted: ./dev $command ended with $code and said: $said"; fi
}

build_house 14
wants 'lint --quick' 0 'layers called' 'sizes called' 'docs called' - 'cmake called'
wants test 0 'layers called' 'sizes called' 'docs called' 'clang-tidy called' 'cmake called' 'ctest called' - 'not checked'
for name in layers sizes docs words; do
  build_house 14
  touch "$house/broken_$name"
  wants test 1 'layers called' 'sizes called' 'docs called' - 'cmake called' 'ctest called'
done
build_house 14
echo 'suspect' >"$house/src/a.cc"
wants test 1 'clang-tidy called' 'fix what is named above' - 'building' 'ctest called'
build_house 14
echo 'crooked' >"$house/src/a.cc"
wants test 1 'src/a.cc' - 'cmake called'
wants 'lint --quick' 1 'src/a.cc'
wants 'fmt --check' 123 'src/a.cc'
build_house 19
echo 'crooked' >"$house/src/a.cc"
wants test 0 'format is not checked: that needs clang-format 14, found 19' 'needs clang-tidy 14, found 19' 'cmake called' - 'clang-tidy called'
wants 'fmt --check' 1 'needs clang-format 14, found 19'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
