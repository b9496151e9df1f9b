#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Sessions of which there are more snapshots than there can be layers: these are merged, and nothing of that can be seen.
#
# NSBOX_TEST_SNAPSHOTS   how many one session is to have in a row (default: 150; a multiple of 50)

load helpers
load sessions
load snapshots

# In the session $1, a script.
within() {
  observe timeout 100 "$nsbox" session exec "$1" -- sh -c "$2"
  [ "$status" = 0 ]
}

# What is done in step $1, in a folder: the same in a session and on the host. Links are not written through, as a file
# of a layer that is written to parts from its other names.
step() {
  local n=$1 k=$((($1 * 7919 + $1 / 13) % 9))
  echo "n=$n k=$k; t() { touch -h -d @\$((1000000000 + n)) \"\$@\" .; }"
  case $((n % 13)) in
  0) echo '[ ! -d f$k ] || rm -r f$k; echo $n >f$k; t f$k' ;;
  1) echo 'rm -rf f$k; t' ;;
  2) echo 'rm -rf f$k; mkdir f$k; echo $n >f$k/in; t f$k/in f$k' ;;
  3) echo 'rm -rf f$k; echo back $n >f$k; t f$k' ;;
  4) echo 'rm -rf d$k; mkdir -p d$k/sub; echo $n >d$k/new$((n % 7)); echo $n >d$k/sub/x; t d$k/* d$k/sub/x d$k' ;;
  5) echo 'mkdir -p d$k/sub/deep; echo $n >>d$k/sub/deep/a; t d$k/sub/deep/a d$k/sub/deep d$k/sub d$k' ;;
  6) echo '[ ! -d d$k ] || { rm -rf d$k/sub; t d$k; }' ;;
  7) echo 'rm -f p$k q$k; echo $n >p$k; t p$k; ln p$k q$k; t' ;;
  8) echo 'rm -f p$((k + 1)); rm -f e$k; mkfifo -m 640 e$k; t e$k' ;;
  9) echo 'rm -rf l$k; ln -s "target $n" l$k; t l$k' ;;
  10) echo '[ ! -d g$k ] || chmod -R u+rwx g$k; rm -rf g$k; [ ! -e f$k ] || { mv f$k g$k; chmod $((500 + n % 8 * 10 + n % 7)) g$k; }; t' ;;
  11) echo 'rm -f s$k; truncate -s 1M s$k; echo end >>s$k; chmod $((600 + n % 78 % 10 % 8)) s$k; t s$k' ;;
  12) echo 'mkdir -p c$k; chmod 700 c$k; echo $n >c$k/$((n % 3)); t c$k/$((n % 3)) c$k; chmod $((n % 2 * 500)) c$k' ;;
  esac
}

# All that can be seen of a folder. Modes that keep out are set aside meanwhile.
view=$(cat <<'END'
export LC_ALL=C
modes=$(find . -mindepth 1 -type d -printf '%m %p\n' -exec chmod 700 {} \; | sort -k 2)
echo "$modes"
find . \( -type d -printf '%p d %T@\n' \) -o -printf '%p %y %m %T@ %s %l\n' | sort
find . -type f | sort | xargs md5sum
for f in p*; do [ ! -e "q${f#p}" ] || [ ! "$f" -ef "q${f#p}" ] || echo "$f is q${f#p}"; done
echo "$modes" | sort -r -k 2 | while read -r mode name; do chmod "$mode" "$name"; done
END
)

# Session $1 is as file $2 says.
is_as() {
  within "$1" "cd /workspace/tree; $view"
  diff "$2" <(echo "$output")
}

# Steps from $1 to $2 of the session, with a snapshot each, and of the folder $3; $4 of them are seen and named, all others
# are not kept for long.
steps() {
  local i script
  for ((i = $1; i <= $2; i++)); do
    script=$(step "$i")
    (cd "$3" && sh -c "$script")
    "$nsbox" session exec "$id" -- sh -c "cd /workspace/tree; $script" </dev/null
    if [ $((i % $4)) = 0 ]; then
      "$nsbox" session snapshot --name "s$i" "$id" >/dev/null
      (cd "$3" && sh -c "$view") >"view$i"
    else
      "$nsbox" session snapshot "$id" >>unnamed
    fi
    if [ $((i % 40)) = 39 ]; then
      # shellcheck disable=SC2046 # ids
      "$nsbox" session snapshots rm $(cat unnamed)
      : >unnamed
    fi
  done
}

@test "hundreds of snapshots of a session: each is what there was, and what is there stays few" {
  local i many=${NSBOX_TEST_SNAPSHOTS:-150}
  disk_session
  mkdir model model100
  within "$id" 'mkdir /workspace/tree'
  steps 1 100 model 50
  for i in {1..100}; do
    (cd model100 && sh -c "$(step "$i")")
  done
  steps 101 "$many" model 50
  snapshot "$id"
  holds '.layers < 60'
  for ((i = 50; i <= many; i += 50)); do
    fork "s$i"
    is_as "$forked" "view$i"
    "$nsbox" session stop "$forked"
  done
  # Back, and on from there.
  observe "$nsbox" session restore "$id" s100
  [ "$status" = 0 ]
  steps $((many + 1)) $((many + 50)) model100 50
  fork "s$((many + 50))"
  is_as "$forked" "view$((many + 50))"
  fork "s$many"
  is_as "$forked" "view$many"
  end_all
}

@test "what was removed from a directory of the layers that are merged is not listed" {
  local i
  disk_session
  # A layer that is too big to be merged with those above it.
  within "$id" 'mkdir /workspace/many; cd /workspace/many; i=0; while [ $i -lt 4000 ]; do : >$i; i=$((i + 1)); done; echo x >gone'
  snapshot "$id"
  within "$id" 'mkdir -p /workspace/new/in; cd /workspace/new; echo x | tee gone kept in/gone >in/kept'
  snapshot "$id"
  within "$id" 'cd /workspace; rm new/gone new/in/gone many/gone'
  snapshot "$id"
  for i in {1..45}; do
    within "$id" "echo $i >/workspace/x"
    snapshot "$id"
  done
  holds '.layers < 40'
  within "$id" 'cd /workspace; find new; find many -name gone'
  [ "$(sort <<<"$output")" = $'new\nnew/in\nnew/in/kept\nnew/kept' ]
  end_all
}

@test "generations of forks, also of those in which something runs" {
  local i last
  disk_session
  last=$id
  for i in {1..50}; do
    within "$last" "echo $i >/workspace/$i; echo $i >/workspace/same; [ $i -lt 5 ] || rm /workspace/$((i - 4))"
    [ $((i % 2)) = 0 ] || "$nsbox" session exec -d "$last" -- sleep 1000 >/dev/null
    fork "$last"
    "$nsbox" session stop "$last"
    last=$forked
  done
  within "$last" 'cd /workspace; ls; cat same'
  [ "$output" = $'47\n48\n49\n50\nsame\n50' ]
  snapshot "$last"
  holds '.layers < 46'
  end_all
}

@test "an image of a session whose layers were merged" {
  local bin i
  bin=$(dirname "$(realpath "${NSBOX:-$BATS_TEST_DIRNAME/../../nsbox}")")
  [ -x "$bin/nsbox-image" ] || skip "there is no nsbox-image"
  busybox=$(command -v busybox) && ! ldd "$busybox" >/dev/null 2>&1 || skip "there is no busybox that needs no libraries"
  mkdir -p root/bin root/old/deep root/gone
  cp "$busybox" root/bin/
  for i in sh cat ls rm mkdir ln echo; do ln -s busybox "root/bin/$i"; done
  echo below | tee root/old/file root/old/deep/file root/gone/file >/dev/null
  tar -C root -c . | "$bin/nsbox" images import - test/small
  disk_session --image test/small
  within "$id" 'rm -r /old /gone; mkdir /old; echo new >/old/new'
  for i in {1..60}; do
    within "$id" "echo $i >/made; mkdir -p /d/$((i % 9)); echo $i >/d/$((i % 9))/x; echo $i >/t$i; rm -f /t$((i - 1)); ln -f /made /linked"
    snapshot "$id"
  done
  holds '.layers < 50'
  "$bin/nsbox" session commit "$id" test/committed
  observe "$bin/nsbox" run ${NSBOX_TEST_OPTIONS:-} --image test/committed sh -c 'cat /made /linked; ls /old; ls / | cat; cat /d/*/x'
  [ "$status" = 0 ]
  [[ $output = $'60\n60\nnew\n'* && $output = *$'\nt60\n'* && $output != *$'\nt59\n'* && $output != *gone* ]]
  [[ $output = *$'\n54\n55\n56\n57\n58\n59\n60\n52\n53' ]]
  end_all
}

# A session with so many layers of so many files each that they will be merged soon.
many_files() {
  local i
  disk_session "$@"
  supervisor=$(info .supervisor)
  for i in {1..30}; do
    one_more "$i"
  done
}

one_more() {
  within "$id" "mkdir -p /workspace/$1; cd /workspace/$1; seq 500 | xargs touch"
  "$nsbox" session snapshot "$id" >/dev/null
}

# The process that merges: its pid is in $merger, and it stands still.
catch_merger() {
  local i watcher
  (while ! pkill -STOP -P "$supervisor" -x nsbox-merge; do :; done) 3>&- &
  watcher=$!
  merger=
  for i in {1..100}; do
    one_more "more$RANDOM"
    merger=$(pgrep -P "$supervisor" -x nsbox-merge) && [ "$(ps -o stat= -p "$merger" | cut -c1)" = T ] && break
  done
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" || true
  [ -n "$merger" ]
}

is_all_there() {
  within "$1" 'cd /workspace; ls 1 9 30 | wc -l; ls -d more* | wc -l'
  [ "$output" = "1505"$'\n'"$2" ]
}

@test "kill -9 of what merges, and of the session while it does: nothing is lost" {
  local last i more
  many_files
  catch_merger
  within "$id" 'ls -d /workspace/more* | wc -l'
  more=$output
  # It goes on while that stands still.
  within "$id" 'echo x >/workspace/x'
  snapshot --name more "$id"
  kill -9 "$merger"
  is_all_there "$id" "$more"
  snapshot "$id"
  is_all_there "$id" "$more"
  fork more
  is_all_there "$forked" "$more"
  "$nsbox" session stop "$forked"
  # It is tried again.
  for i in {1..100}; do
    within "$id" "echo $i >/workspace/x"
    snapshot "$id"
    [ "$(of .layers)" -ge 20 ] || break
  done
  holds '.layers < 20'
  is_all_there "$id" "$more"
  # And of the session: the snapshots are what they were.
  for i in {1..28}; do
    one_more "more$((40000 + i))"
  done
  catch_merger
  within "$id" 'ls -d /workspace/more* | wc -l'
  more=$output
  snapshot --name last "$id"
  kill -9 "$supervisor"
  eventually not_there "$merger"
  fork last
  is_all_there "$forked" "$more"
  "$nsbox" session stop "$forked"
  eventually all_whole
  end_all
}

not_there() {
  ! kill -0 "$1" 2>/dev/null
}

# There is no layer that is half made: it goes when another session ends, or a snapshot.
all_whole() {
  local layers=("$place"/store/snapshots/layers/*)
  [ "$(find store/snapshots/layers -mindepth 2 -maxdepth 2 -name about | wc -l)" = ${#layers[@]} ]
}

@test "what merging makes counts, and where that may not be it is put off" {
  local i layers used
  disk_session
  mkdir -p config/nsbox
  for i in {1..50}; do
    within "$id" "mkdir -p /workspace/$i/in; echo $i >/workspace/$i/in/x"
    snapshot "$id"
    # As much as there is with this one, and nothing more: where directories take no place, that is enough.
    used=$(cat store/snapshots/layers/*/about | jq -s 'map(.bytes) | add')
    echo "{\"snapshots\": {\"max_size\": \"$((used + 100000))\"}}" >config/nsbox/nsbox.conf
    export XDG_CONFIG_HOME=$place/config
  done
  layers=$(of .layers)
  unset XDG_CONFIG_HOME
  for i in {51..75}; do
    within "$id" "echo $i >/workspace/1/in/x"
    snapshot "$id"
  done
  [ "$layers" -lt 40 ] || [ "$(of .layers)" -lt "$layers" ]
  holds '.layers < 60'
  # What is shared counts once: not much more than there is.
  used=$(cat store/snapshots/layers/*/about | jq -s 'map(.bytes) | add')
  [ "$used" -le "$(($(du -s --block-size=1 store/snapshots/layers | cut -f1) + 4096))" ]
  within "$id" 'cat /workspace/1/in/x /workspace/50/in/x; ls /workspace | wc -l'
  [ "$output" = $'75\n50\n50' ]
  end_all
}

@test "a full disk: the session stays over the layers that it is over, until there is place" {
  local i
  am_root || skip "only root can mount"
  truncate -s 64m disk
  mkfs.ext4 -q -m 0 disk 2>/dev/null || skip "there is no mkfs.ext4"
  mkdir small
  mount -o loop disk small 2>/dev/null || skip "no disk can be mounted"
  export NSBOX_STORE=$place/small/store
  disk_session
  # Less than has to stay free for others, and enough for some small layers.
  head -c $((($(stat -f -c '%a * %S' small) - (5 << 20)) / 1000000))000000 /dev/zero | dd of=small/fill bs=64k status=none || true
  while [ "$(($(stat -f -c '%a * %S' small)))" -gt $((6 << 20)) ]; do head -c 500000 /dev/zero >>small/fill; done
  for i in {1..45}; do
    within "$id" "mkdir -p /workspace/d; echo $i >/workspace/d/$i"
    snapshot "$id"
  done
  if [ "$(($(stat -f -c '%a * %S' small)))" -lt 3000000 ]; then
    is .layers 45
  fi
  rm small/fill
  for i in {46..75}; do
    within "$id" "echo $i >/workspace/d/$i"
    snapshot "$id"
  done
  holds '.layers < 45'
  within "$id" 'ls /workspace/d | wc -l; cat /workspace/d/1 /workspace/d/75'
  [ "$output" = $'75\n1\n75' ]
  "$nsbox" session stop --all
  umount small
}
