#!/bin/sh
# The program prints a scoreboard and refuses bad tables: scoreboard_test.sh SCOREBOARD
set -u
desk=$(mktemp -d)
trap 'rm -rf "$desk"' EXIT
cd "$desk" || exit 1
mkdir tables
# Rajbhandari et al. 2020, arXiv 1910.02054, table 1.
printf 'model,params_B,dp_degree,zero_stage,mem_GB_per_device\n7.5B,7.5,64,1,31.4\n' >tables/zero_table1_model_state_memory.csv

failed=0
# expect CODE WORDS ARGUMENTS...: exit code and words of the output
expect() {
  code=$1 words=$2
  shift 2
  out=$("$program" "$@" 2>&1)
  got=$?
  case $out in
    *"$words"*) [ "$got" = "$code" ] && return ;;
  esac
  echo "scoreboard $*: exit $got for $code, without '$words': $out"
  failed=1
}
program=$1
expect 0 "7.5B ZeRO-1 on 64" --tables tables --rows
expect 0 "1 of 1 bars met; 0 have nothing to be met on; 0 cases not scored" --tables tables
expect 0 '"met": true' --tables tables --format json
expect 2 "needs a directory of tables" --tables nowhere
expect 2 "no known table" --tables .
expect 2 "no such table" --tables tables --table zero_table1
printf 'model,params_B\n7.5B\n' >tables/zero_table1_model_state_memory.csv
expect 3 "zero_table1_model_state_memory.csv:2: 1 values" --tables tables
exit $failed
