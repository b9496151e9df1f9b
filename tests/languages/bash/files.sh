set -e
dir=$(mktemp -d)
cd "$dir"
mkdir -p a/b && printf 'one\ntwo\n' > a/b/f && ln -s b/f a/link && cp a/link copy
chmod 640 copy && stat -c '%a %s %n' copy
find . -type f | sort
tar czf x.tgz a && tar tzf x.tgz | sort
dd if=/dev/zero of=zero bs=1M count=10 2>/dev/null && gzip zero && [ "$(stat -c %s zero.gz)" -lt 20000 ] && echo small
comm -12 <(sort copy) <(echo two)
cd / && rm -r "$dir" && [ ! -e "$dir" ] && echo gone
