# NATS for scripts/services: one server with JetStream that writes to disk before it answers, built from the module that
# go.mod names.
# shellcheck shell=bash disable=SC2154

nats_version() { sed -n 's|^[[:space:]]*github.com/nats-io/nats-server/v2 \([^ ]*\).*|\1|p' "$root/go.mod"; }
nats_binary() { echo "$cache/nats-server-$(nats_version)"; }

find_nats() {
  [ ! -x "$(nats_binary)" ] || return 0
  have go || die "NATS is built with Go: install it, or name a server: SKALD_TEST_NATS=nats://host:port"
  say "building NATS $(nats_version) (once) into $cache"
  mkdir -p "$cache"
  local work
  work=$(mktemp -d "$cache/build.XXXXXX")
  (cd "$root" && quietly go build -o "$work/nats-server" github.com/nats-io/nats-server/v2) ||
    { rm -rf "$work"; die "Go could not build NATS $(nats_version)"; }
  mv "$work/nats-server" "$(nats_binary)"
  rm -rf "$work"
}

pid_nats() { cat "$dir/nats.pid" 2>/dev/null || true; }

runs_nats() { lives "$(pid_nats)" "$dir/nats/nats.conf" && asks_nats; }

# Asks for the account's JetStream: what comes back is no error.
asks_nats() {
  # shellcheck disable=SC2016
  timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf "CONNECT {\"verbose\":false}\r\nSUB _I.services 1\r\nPUB \$JS.API.INFO _I.services 0\r\n\r\n" >&3
    while read -r -t 2 line <&3; do
      case $line in *account_info_response*\"error\":*) exit 1 ;; *account_info_response*) exit 0 ;; esac
    done
    exit 1' sh "$(port_of nats)" 2>/dev/null
}

up_nats() {
  if given nats || { runs_nats && [ "$(nats_settings)" = "$(cat "$dir/nats/nats.conf")" ]; }; then return; fi
  finish "$(pid_nats)" "$dir/nats/nats.conf" KILL # one that was caught in its start, or has other settings
  choose_port nats
  mkdir -p "$dir/nats"
  nats_settings >"$dir/nats/nats.conf"
  nats_start
  say "nats: $(address nats)"
}

nats_settings() {
  cat <<TEXT
listen: "127.0.0.1:$(port_of nats)"
log_file: "$dir/nats/log"
jetstream {
  store_dir: "$dir/nats/data"
  sync_interval: always
  max_memory_store: 256MB
  max_file_store: 20GB
}
TEXT
}

nats_start() {
  local detach=nohup
  have setsid && detach="setsid nohup"
  # shellcheck disable=SC2086
  $detach "$(nats_binary)" -c "$dir/nats/nats.conf" </dev/null >>"$dir/nats/out" 2>&1 8>&- 9>&- &
  echo $! >"$dir/nats.pid"
  within 300 nats_decided || nats_failed "does not answer after 300 s"
  lives "$(pid_nats)" "$dir/nats/nats.conf" || nats_failed "did not start" # runs_nats would ask again, and a busy machine may not answer in time
}

nats_decided() { asks_nats || ended "$(pid_nats)"; }

nats_failed() {
  tail -n 20 "$dir/nats/out" "$dir/nats/log" >&2 || true
  finish "$(pid_nats)" "$dir/nats/nats.conf" KILL
  die "NATS $1"
}

restart_nats() {
  given nats && die "nats: $(shown "$(address_given nats)") is not ours to restart"
  [ -e "$dir/nats.pid" ] || die "nats is not running: scripts/services up nats"
  finish "$(pid_nats)" "$dir/nats/nats.conf" KILL
  nats_start
  say "nats: $(address nats), restarted"
}

down_nats() {
  [ -e "$dir/nats.pid" ] || return 0
  finish "$(pid_nats)" "$dir/nats/nats.conf" KILL # its data goes too: nothing to shut down in order
  rm -rf "$dir/nats"
  rm -f "$dir/nats.pid"
  say "nats: down"
}
