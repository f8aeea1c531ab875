# Redis for scripts/services: one server and a replica of it, in memory alone.
# shellcheck shell=bash disable=SC2154

find_redis() {
  have redis-server || install_debian redis-server ||
    die "Redis is missing: install it (redis-server), or name a server: SKALD_TEST_REDIS=redis://host:port"
}

pid_redis() { cat "$dir/redis.pid" 2>/dev/null || true; }
pid_redis_replica() { cat "$dir/redis_replica.pid" 2>/dev/null || true; }

# The server answers, and its replica has what it has.
runs_redis() {
  lives "$(pid_redis)" "127.0.0.1:$(port_of redis)" && lives "$(pid_redis_replica)" "127.0.0.1:$(port_of redis_replica)" &&
    asks_redis "$(port_of redis)" role:master && asks_redis "$(port_of redis_replica)" master_link_status:up
}

asks_redis() { # asks_redis PORT LINE: whether its replication says so
  # shellcheck disable=SC2016
  timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf "INFO replication\r\nQUIT\r\n" >&3
    tr -d "\r" <&3 | grep -qxF "$2"' sh "$1" "$2" 2>/dev/null
}

up_redis() {
  if given redis || runs_redis; then return; fi
  redis_kill
  choose_port redis
  choose_port redis_replica
  redis_start
  say "redis: $(address redis), and a replica"
}

redis_start() {
  mkdir -p "$dir/redis" "$dir/redis_replica"
  redis_server redis
  redis_server redis_replica --replicaof 127.0.0.1 "$(port_of redis)" --repl-diskless-sync-delay 0
  within 60 runs_redis || redis_failed
}

redis_server() { # redis_server NAME OPTION…
  local name=$1 detach=nohup
  shift
  have setsid && detach="setsid nohup"
  # shellcheck disable=SC2086
  $detach redis-server --bind 127.0.0.1 --port "$(port_of "$name")" --save '' --appendonly no --dir "$dir/$name" "$@" \
    </dev/null >>"$dir/$name/log" 2>&1 8>&- 9>&- &
  echo $! >"$dir/$name.pid"
}

redis_failed() {
  tail -n 20 "$dir/redis/log" "$dir/redis_replica/log" >&2 || true
  redis_kill
  die "Redis does not answer after 60 s"
}

redis_environment() { # what tests read besides SKALD_TEST_REDIS
  [ -z "$(port_of redis_replica)" ] || printf "export SKALD_TEST_REDIS_REPLICA='redis://127.0.0.1:%s'\n" "$(port_of redis_replica)"
}

redis_kill() {
  local name
  for name in redis redis_replica; do
    [ -z "$(port_of "$name")" ] || finish "$(cat "$dir/$name.pid" 2>/dev/null || true)" "127.0.0.1:$(port_of "$name")" KILL
  done
}

restart_redis() {
  given redis && die "redis: $(shown "$(address_given redis)") is not ours to restart"
  [ -e "$dir/redis.pid" ] || die "redis is not running: scripts/services up redis"
  redis_kill
  redis_start
  say "redis: $(address redis), restarted"
}

down_redis() {
  [ -e "$dir/redis.pid" ] || return 0
  redis_kill # its data goes too: nothing to shut down in order
  rm -rf "$dir/redis" "$dir/redis_replica"
  rm -f "$dir/redis.pid" "$dir/redis_replica.pid"
  say "redis: down"
}
