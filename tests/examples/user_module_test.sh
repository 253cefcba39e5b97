#!/bin/sh
# The example learns, and prints the same digits on one rank as on two and four.
set -eu
two=$("$1")
echo "$two"
for layout in "1 0" "2 1" "4 3"; do
  # shellcheck disable=SC2086
  [ "$("$1" $layout)" = "$two" ] || { echo "ranks and zero $layout print other digits"; exit 1; }
done
echo "$two" | awk '/^step/ { last = $4; ++lines } END { exit !(lines == 3 && last < 0.1) }' || {
  echo "the last loss is not below 0.1"
  exit 1
}
