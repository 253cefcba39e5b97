#!/usr/bin/env bash
# README's commands run as they stand, one after the other, and every trireme command line of the docs is one that the
# program knows, with options that it has.
#   readme_test.sh FOLDER_OF_PROGRAMS ON|OFF    whether trireme-worker was built
set -euo pipefail
worker=$2
root=$(readlink -f "$(dirname "$0")/../..")
desk=$(mktemp -d)
trap 'rm -rf "$desk"' EXIT
export PATH="$1:$PATH" XDG_CACHE_HOME="$desk/cache"

# Indented lines that begin with trireme, without their comments.
commands() { sed -nE 's/^    (trireme .*)$/\1/p' "$@" | sed -E 's/ +# .*$//'; }

# known LINE: the command exists and has these options.
known() {
  local words help word
  if [[ $1 == *" -- "* ]]; then  # what launch starts is a command too
    known "${1%% -- *}" && known "trireme ${1#* -- }"
    return
  fi
  read -ra words <<<"$1"
  help=$(trireme "${words[@]:1:2}" --help 2>/dev/null) && grep -qx "Usage: ${words[*]:0:3} .*" <<<"$help" ||
    { help=$(trireme "${words[1]}" --help) && grep -q "^Usage: ${words[*]:0:2} " <<<"$help"; } || return 1
  for word in "${words[@]}"; do
    [[ $word != --* ]] || grep -qE -- "(^|[ ,])$word( |$)" <<<"$help" || return 1
  done
}

for planted in "trireme trian JOB.yaml" "trireme train JOB.yaml --nprocs 2" "trireme data prepare x --tokeniser y" \
  "trireme launch --nproc-per-node 2 -- train JOB.yaml --ste run.steps=1"; do
  ! known "$planted" || { echo "the check took '$planted'"; exit 1; }
done
checked=0
while read -r line; do
  known "$line" || { echo "no such command or option: $line"; exit 1; }
  checked=$((checked + 1))
done < <(commands "$root/README.md" "$root"/docs/*.md)
[ "$checked" -ge 12 ] || { echo "only $checked commands found: has their form changed?"; exit 1; }

cp -r "$root/docs" "$root/recipes" "$desk"
cd "$desk"
ran=0
while read -r line; do
  if [ "$worker" != ON ] && [[ $line =~ ^trireme\ (train|generate) ]]; then continue; fi
  echo "$ $line"
  eval "$line" || { echo "README: exit $?: $line"; exit 1; }
  ran=$((ran + 1))
done < <(commands "$root/README.md")
[ "$ran" -ge 2 ] || { echo "only $ran commands of README ran"; exit 1; }
echo "$checked command lines checked, $ran run"
