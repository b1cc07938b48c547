#!/bin/bash
# Large arrays, associative arrays, subshells, pipes, here-documents and string surgery.
set -euo pipefail

declare -a numbers=()
for ((i = 0; i < 30000; i++)); do numbers+=($((i * 7919 % 10007))); done
echo "${#numbers[@]} ${numbers[29999]}"
for ((i = 0; i < 30000; i += 2)); do unset "numbers[i]"; done
echo "${#numbers[@]}"

declare -A seen=()
for n in "${numbers[@]}"; do seen[key$n]=$((${seen[key$n]:-0} + n)); done
echo "${#seen[@]}"
for key in "${!seen[@]}"; do echo "$key ${seen[$key]}"; done | sort | cksum

text=$(printf 'word%d ' {1..10000})
echo "${#text}"
text=${text//word/W}
echo "${text:100:50} ${#text}"
read -ra words <<<"$text"
echo "${#words[@]} ${words[*]:5:5}"

total=0
for i in {1..60}; do
  part=$(
    set -- $(seq "$i" "$((i + 50))")
    echo $(($# * $1))
  )
  total=$((total + part))
done
echo "$total"

seq 1 20000 | while read -r n; do echo "$((n * n))"; done | tr -d 1 | paste -sd+ | cksum
cat <<EOF | sed 's/a/b/g' | rev
banana $(for i in {1..50}; do printf '%s' "$i"; done)
EOF
function depth() { if (($1 > 0)); then depth $(($1 - 1)); else echo "bottom"; fi; }
depth 600
mapfile -t lines < <(seq 1 50000)
echo "${#lines[@]} ${lines[-1]}"
