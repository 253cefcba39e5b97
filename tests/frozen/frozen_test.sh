#!/bin/sh
# Proof that the comparison sees one byte: frozen_test.sh FROZEN
set -u
found=$("$1" --plant vit_tiny)
code=$?
[ "$code" = 1 ] || { echo "a planted byte was not found: exit $code"; exit 1; }
case $found in
  *"vit_tiny"*"one/memory"*", was "*"1 of the recipes differ"*) ;;
  *) echo "the planted byte is not named: $found"; exit 1 ;;
esac
