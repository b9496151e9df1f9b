# CSV by awk, regular expressions, sed, here-documents, parameter expansion.
awk -F, 'NR > 1 { sum[$1] += $2 } END { for (k in sum) print k, sum[k] }' <<'CSV' | sort
name,qty
ann,3
bob,4
ann,5
CSV
[[ "2024-05-01 ERROR 28" =~ ^([0-9-]+)\ ([A-Z]+)\ ([0-9]+)$ ]] && echo "${BASH_REMATCH[1]} ${BASH_REMATCH[3]}"
path=/a/b/archive.tar.gz
echo "${path##*/} ${path%%.*} ${path/b/X} ${path^^}"
echo 'hello world' | sed -E 's/(\w+) (\w+)/\2 \1/' | tr a-z A-Z | rev
