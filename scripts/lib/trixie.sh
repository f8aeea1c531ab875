# Programs of Debian 13 for scripts/services, beside whatever this machine runs: unpacked into the cache, run in a chroot.
# RabbitMQ 4 as a cluster of three nodes, and a PgBouncer that knows prepared statements.
# shellcheck shell=bash disable=SC2154

trixie_root() { echo "$cache/trixie/root"; }

find_trixie() {
  [ -e "$cache/trixie/made" ] && return
  { is_root && have apt-get && have dpkg-deb && have unshare; } ||
    die "RabbitMQ 4 and PgBouncer 1.24 come from Debian 13, for root with apt-get, dpkg-deb and unshare; or name a server: SKALD_TEST_RABBITMQ_4, SKALD_TEST_PGBOUNCER"
  say "fetching RabbitMQ 4 and PgBouncer 1.24 of Debian 13 (80 MB, once) into $cache/trixie"
  rm -rf "$cache/trixie"
  mkdir -p "$cache/trixie/state/lists/partial" "$cache/trixie/archives/archives/partial" "$(trixie_root)"
  : >"$cache/trixie/state/status"
  echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main' >"$cache/trixie/sources.list"
  cat >"$cache/trixie/apt.conf" <<TEXT
Dir::State "$cache/trixie/state";
Dir::State::status "$cache/trixie/state/status";
Dir::Cache "$cache/trixie/archives";
Dir::Etc::sourcelist "$cache/trixie/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "-";
TEXT
  quietly env APT_CONFIG="$cache/trixie/apt.conf" apt-get update &&
    quietly env APT_CONFIG="$cache/trixie/apt.conf" apt-get install --download-only -y --no-install-recommends \
      rabbitmq-server pgbouncer dash bash coreutils sed grep gawk util-linux procps libc-bin ||
    die "Debian 13 could not be reached"
  local package
  for package in "$cache"/trixie/archives/archives/*.deb; do dpkg-deb -x "$package" "$(trixie_root)"; done
  rm -rf "$cache/trixie/archives" "$cache/trixie/state"
  mkdir -p "$(trixie_root)/skald"
  echo 'root:x:0:0:root:/root:/bin/bash' >"$(trixie_root)/etc/passwd"
  echo 'pooler:x:65500:65500::/:/bin/bash' >>"$(trixie_root)/etc/passwd"
  printf 'root:x:0:\npooler:x:65500:\n' >"$(trixie_root)/etc/group"
  echo '127.0.0.1 localhost' >"$(trixie_root)/etc/hosts"
  touch "$cache/trixie/made"
}

# Runs a program in that root, with this checkout's folder as /skald. Its mounts end with it.
in_trixie() { # in_trixie [NAME=VALUE]… PROGRAM ARGUMENT…
  # shellcheck disable=SC2016
  unshare -m bash -c 'set -e
    root=$1 home=$2
    shift 2
    mount --make-rprivate /
    mount --bind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount --bind "$home" "$root/skald"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"' in_trixie "$(trixie_root)" "$dir" "$@"
}

# RabbitMQ 4: three nodes, so that each quorum queue has three replicas.

rabbitmq4_nodes=(a b c)

find_rabbitmq4() { find_trixie; }

rabbitmq4_variables() { # rabbitmq4_variables NODE
  printf '%s\n' HOME=/skald/rabbitmq4 "ERL_EPMD_PORT=$(port_of epmd4)" ERL_EPMD_ADDRESS=127.0.0.1 "RABBITMQ_NODENAME=skald$1-$(port_of rabbitmq4)@localhost" \
    "RABBITMQ_DIST_PORT=$(port_of "rabbitmq4_dist$1")" "RABBITMQ_CONFIG_FILE=/skald/rabbitmq4/$1.conf" "RABBITMQ_MNESIA_BASE=/skald/rabbitmq4/data" \
    RABBITMQ_LOG_BASE=/skald/rabbitmq4/log "RABBITMQ_PID_FILE=/skald/rabbitmq4/$1.pid" RABBITMQ_ENABLED_PLUGINS_FILE=/skald/rabbitmq4/plugins \
    RABBITMQ_CONF_ENV_FILE=/skald/rabbitmq4/none RABBITMQ_ADVANCED_CONFIG_FILE=/skald/rabbitmq4/none "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1"
}

rabbitmq4_port() { # rabbitmq4_port NODE
  if [ "$1" = a ]; then port_of rabbitmq4; else port_of "rabbitmq4_$1"; fi
}

rabbitmq4_settings() { # rabbitmq4_settings NODE
  local node
  printf 'listeners.tcp.1 = 127.0.0.1:%s\n' "$(rabbitmq4_port "$1")"
  printf 'cluster_formation.peer_discovery_backend = classic_config\n'
  for node in "${rabbitmq4_nodes[@]}"; do printf 'cluster_formation.classic_config.nodes.%s = skald%s-%s@localhost\n' "$node" "$node" "$(port_of rabbitmq4)"; done
  printf 'vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 50MB\nlog.file.level = warning\n'
}

pid_rabbitmq4() { rabbitmq4_pid a; }
rabbitmq4_pid() { cat "$dir/rabbitmq4/$1.pid" 2>/dev/null || true; }

runs_rabbitmq4() { # all of its nodes
  [ -e "$dir/rabbitmq4/made" ] || return 1
  local node
  for node in "${rabbitmq4_nodes[@]}"; do
    lives "$(rabbitmq4_pid "$node")" "-epmd_port $(port_of epmd4)" && asks_amqp "$(rabbitmq4_port "$node")" || return 1
  done
}

up_rabbitmq4() {
  if given rabbitmq4 || runs_rabbitmq4; then return; fi
  rabbitmq4_kill
  local name node variables detach=nohup
  for name in rabbitmq4 rabbitmq4_b rabbitmq4_c rabbitmq4_dista rabbitmq4_distb rabbitmq4_distc epmd4; do choose_port "$name"; done
  rm -rf "$dir/rabbitmq4"
  mkdir -p "$dir/rabbitmq4/data" "$dir/rabbitmq4/log"
  tr -dc A-Z </dev/urandom | head -c 20 >"$dir/rabbitmq4/.erlang.cookie" || true
  chmod 400 "$dir/rabbitmq4/.erlang.cookie"
  echo '[].' >"$dir/rabbitmq4/plugins"
  have setsid && detach="setsid nohup"
  for node in "${rabbitmq4_nodes[@]}"; do
    rabbitmq4_settings "$node" >"$dir/rabbitmq4/$node.conf"
    mapfile -t variables < <(rabbitmq4_variables "$node")
    export -f in_trixie trixie_root
    # shellcheck disable=SC2086
    cache=$cache dir=$dir $detach bash -c 'in_trixie "$@"' sh "${variables[@]}" /usr/lib/rabbitmq/bin/rabbitmq-server </dev/null >>"$dir/rabbitmq4/$node.out" 2>&1 8>&- 9>&- &
  done
  touch "$dir/rabbitmq4/made"
  within 300 rabbitmq4_whole || { tail -n 20 "$dir/rabbitmq4/"*.out >&2; rabbitmq4_kill; die "RabbitMQ 4 does not answer after 300 s"; }
  say "rabbitmq4: $(address rabbitmq4), three nodes"
}

# All three know each other.
rabbitmq4_whole() {
  runs_rabbitmq4 || return 1
  local variables
  mapfile -t variables < <(rabbitmq4_variables a)
  [ "$(in_trixie "${variables[@]}" /usr/lib/rabbitmq/bin/rabbitmqctl -q eval 'length(rabbit_nodes:list_running()).' 2>/dev/null)" = 3 ]
}

restart_rabbitmq4() { down_rabbitmq4 && up_rabbitmq4; }

down_rabbitmq4() {
  [ -e "$dir/rabbitmq4" ] || return 0
  rabbitmq4_kill
  rm -rf "$dir/rabbitmq4"
  say "rabbitmq4: down"
}

rabbitmq4_kill() {
  [ -n "$(port_of epmd4)" ] || return 0
  pkill -KILL -f -- "-epmd_port $(port_of epmd4) " 2>/dev/null || true
  pkill -KILL -f -- "epmd .*-port $(port_of epmd4)" 2>/dev/null || true
}

# PgBouncer 1.24, which knows prepared statements, in front of the PostgreSQL that the other one is in front of.

find_pgbouncer124() { find_trixie; }

pid_pgbouncer124() { cat "$dir/pgbouncer124/pid" 2>/dev/null || true; }

runs_pgbouncer124() {
  [ -e "$dir/pgbouncer124/ini" ] && lives "$(pid_pgbouncer124)" /skald/pgbouncer124/ini && answers 127.0.0.1 "$(port_of pgbouncer124)"
}

up_pgbouncer124() {
  if given pgbouncer124 || runs_pgbouncer124; then return; fi
  choose_port pgbouncer124
  rm -rf "$dir/pgbouncer124"
  mkdir -p "$dir/pgbouncer124"
  pgbouncer_user >"$dir/pgbouncer124/users"
  { pgbouncer_settings pgbouncer124 /skald/pgbouncer124 && echo 'max_prepared_statements = 200'; } >"$dir/pgbouncer124/ini"
  chown -R 65500:65500 "$dir/pgbouncer124"
  in_trixie /usr/sbin/pgbouncer -q -d -u pooler /skald/pgbouncer124/ini </dev/null >"$dir/pgbouncer124/out" 2>&1 8>&- 9>&- &&
    within 300 runs_pgbouncer124 || { cat "$dir/pgbouncer124/out" "$dir/pgbouncer124/log" >&2; die "PgBouncer 1.24 does not answer"; }
  say "pgbouncer124: $(address pgbouncer124)"
}

restart_pgbouncer124() { down_pgbouncer124 && up_pgbouncer124; }

down_pgbouncer124() {
  [ -e "$dir/pgbouncer124" ] || return 0
  finish "$(pid_pgbouncer124)" /skald/pgbouncer124/ini INT
  rm -rf "$dir/pgbouncer124"
  say "pgbouncer124: down"
}
