#!/bin/sh
# tools/check_cuda sees what only a build for CUDA would compile, and says where it cannot tell.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/planted.cc" <<'SOURCE'
#if defined(TRIREME_CUDA) && defined(USE_C10D_NCCL)
int planted() { return undeclared; }
#endif
SOURCE

CUDA_HOME=$work "$root/tools/check_cuda" >"$work/log" && status=0 || status=$?
grep -q 'skipped: no .*nvcc' "$work/log" && [ "$status" = 77 ] || {
  echo "without nvcc: code $status, $(cat "$work/log")"
  exit 1
}

"$root/tools/check_cuda" "$work/planted.cc" >"$work/log" 2>&1 && status=0 || status=$?
[ "$status" != 77 ] || { cat "$work/log"; exit 77; }
grep -q 'undeclared' "$work/log" && [ "$status" = 1 ] || {
  echo "a planted error was not seen: code $status, $(cat "$work/log")"
  exit 1
}
