echo "$# $1|$2|$3"
echo "$GREETING [${EMPTY-unset}]"
n=0; while read -r line; do ((n += line)); done; echo "$n"
