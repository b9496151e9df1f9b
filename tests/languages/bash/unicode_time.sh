s='grüße 日本'
echo "${#s} $(printf %s "$s" | wc -c) ${s^^} ${s:6:1}"
for zone in UTC Europe/Berlin Asia/Tokyo; do TZ=$zone date -d @1730000000 '+%F %T %Z'; done
printf '%(%Y)T\n' 0
