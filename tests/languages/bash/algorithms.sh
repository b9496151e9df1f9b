# Arithmetic, arrays, associative arrays, recursion.
gcd() { local a=$1 b=$2; ((b == 0)) && echo "$a" || gcd "$b" $((a % b)); }
gcd 1071 462
declare -A count
for word in the cat the dog the end; do ((count[$word]++)); done
for word in "${!count[@]}"; do echo "$word=${count[$word]}"; done | sort
numbers=(5 3 9 1)
mapfile -t sorted < <(printf '%s\n' "${numbers[@]}" | sort -n)
echo "${sorted[*]} ${#sorted[@]} $((2 ** 40)) $((16#ff))"
