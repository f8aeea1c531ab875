# RabbitMQ for scripts/services: one node, by whoever calls, with an epmd of its own.
# shellcheck shell=bash disable=SC2154

find_rabbitmq() {
  rabbitmq_bin >/dev/null || install_debian rabbitmq-server ||
    die "RabbitMQ is missing: install it (3.10 or later), or name a server: SKALD_TEST_RABBITMQ=amqp://host:port"
  have openssl || install_debian openssl || die "RabbitMQ's TLS listener needs openssl, which makes its certificates"
}

# The folder of its programs: those that do not switch the user, as Debian's in /usr/sbin do.
rabbitmq_bin() {
  local at
  at=$(command -v rabbitmq-server || true)
  [ -z "$at" ] || at=$(dirname "$(readlink -f "$at")")
  for at in /usr/lib/rabbitmq/bin "$at"; do
    if [ -n "$at" ] && [ -x "$at/rabbitmq-server" ]; then
      echo "$at"
      return
    fi
  done
  return 1
}

rabbitmq_node() { echo "skald-$(port_of rabbitmq)@localhost"; }

# What its programs read, for env.
rabbitmq_variables() {
  local home=$dir/rabbitmq
  printf '%s\n' "HOME=$home" "ERL_EPMD_PORT=$(port_of epmd)" ERL_EPMD_ADDRESS=127.0.0.1 "RABBITMQ_NODENAME=$(rabbitmq_node)" \
    "RABBITMQ_DIST_PORT=$(port_of rabbitmq_dist)" "RABBITMQ_CONFIG_FILE=$home/rabbitmq.conf" "RABBITMQ_MNESIA_BASE=$home/data" \
    "RABBITMQ_LOG_BASE=$home/log" "RABBITMQ_PID_FILE=$home/pid" "RABBITMQ_ENABLED_PLUGINS_FILE=$home/plugins" \
    "RABBITMQ_FEATURE_FLAGS_FILE=$home/flags" "RABBITMQ_CONF_ENV_FILE=$home/none" "RABBITMQ_ADVANCED_CONFIG_FILE=$home/none" \
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2" ERL_CRASH_DUMP=/dev/null
}

rabbitmq_do() { # rabbitmq_do PROGRAM ARGUMENT…
  local variables program=$1
  shift
  mapfile -t variables < <(rabbitmq_variables)
  env "${variables[@]}" "$(rabbitmq_bin)/$program" "$@"
}

pid_rabbitmq() { cat "$dir/rabbitmq/pid" 2>/dev/null || true; }

runs_rabbitmq() { lives "$(pid_rabbitmq)" "-home $dir/rabbitmq" && asks_rabbitmq; }

asks_rabbitmq() { asks_amqp "$(port_of rabbitmq)"; }

# Greets a server, and looks whether it answers with a frame of a connection that starts.
asks_amqp() { # asks_amqp PORT
  local answer
  # shellcheck disable=SC2016
  answer=$(timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf "AMQP\0\0\x09\x01" >&3
    head -c 3 <&3 | od -An -v -tx1' sh "$1" 2>/dev/null | tr -d ' \n') || return 1
  [ "$answer" = 010000 ]
}

up_rabbitmq() {
  if given rabbitmq || { runs_rabbitmq && [ "$(rabbitmq_settings)" = "$(cat "$dir/rabbitmq/rabbitmq.conf")" ]; }; then return; fi
  finish "$(pid_rabbitmq)" "-home $dir/rabbitmq" KILL # one that was caught in its start, or has other settings
  rabbitmq_epmd_down
  local name
  for name in rabbitmq rabbitmq_tls rabbitmq_dist epmd; do choose_port "$name"; done
  mkdir -p "$dir/rabbitmq"
  [ -e "$dir/rabbitmq/certs/server.crt" ] || certificates "$dir/rabbitmq/certs"
  rabbitmq_settings >"$dir/rabbitmq/rabbitmq.conf"
  echo '[rabbitmq_auth_mechanism_ssl].' >"$dir/rabbitmq/plugins"
  rabbitmq_start
  say "rabbitmq: $(address rabbitmq)"
}

# A client's certificate is asked for, and its CN is a user (EXTERNAL); without one there are users with passwords.
rabbitmq_settings() {
  cat <<TEXT
listeners.tcp.1 = 127.0.0.1:$(port_of rabbitmq)
listeners.ssl.1 = 127.0.0.1:$(port_of rabbitmq_tls)
ssl_options.cacertfile = $dir/rabbitmq/certs/ca.pem
ssl_options.certfile = $dir/rabbitmq/certs/server.crt
ssl_options.keyfile = $dir/rabbitmq/certs/server.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
ssl_cert_login_from = common_name
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
auth_mechanisms.3 = EXTERNAL
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 50MB
log.file.level = warning
TEXT
}

rabbitmq_environment() { # what tests read besides SKALD_TEST_RABBITMQ
  [ -e "$dir/rabbitmq/certs/server.crt" ] || return 0
  printf "export SKALD_TEST_RABBITMQ_TLS='amqps://127.0.0.1:%s'\n" "$(port_of rabbitmq_tls)"
  printf "export SKALD_TEST_RABBITMQ_CERTS='%s'\n" "$dir/rabbitmq/certs"
  printf "export SKALD_TEST_RABBITMQ_CTL='%s'\n" "$(rabbitmq_variables | sed 's/.*/"&"/' | tr '\n' ' ' | sed 's/^/env /')$(rabbitmq_bin)/rabbitmqctl"
}

rabbitmq_start() {
  local detach=nohup variables
  have setsid && detach="setsid nohup"
  rm -f "$dir/rabbitmq/pid"
  mapfile -t variables < <(rabbitmq_variables)
  # shellcheck disable=SC2086
  env "${variables[@]}" $detach "$(rabbitmq_bin)/rabbitmq-server" </dev/null >>"$dir/rabbitmq/out" 2>&1 8>&- 9>&- &
  local job=$!
  within 300 rabbitmq_decided "$job" || rabbitmq_failed "does not answer after 300 s"
  lives "$(pid_rabbitmq)" "-home $dir/rabbitmq" || rabbitmq_failed "did not start"
}

rabbitmq_decided() { runs_rabbitmq || ended "$1"; }

rabbitmq_failed() {
  tail -n 20 "$dir/rabbitmq/out" "$dir/rabbitmq/log/"*.log >&2 || true
  finish "$(pid_rabbitmq)" "-home $dir/rabbitmq" KILL
  die "RabbitMQ $1"
}

restart_rabbitmq() {
  given rabbitmq && die "rabbitmq: $(shown "$(address_given rabbitmq)") is not ours to restart"
  [ -e "$dir/rabbitmq/pid" ] || die "rabbitmq is not running: scripts/services up rabbitmq"
  finish "$(pid_rabbitmq)" "-home $dir/rabbitmq" KILL
  rabbitmq_start
  say "rabbitmq: $(address rabbitmq), restarted"
}

down_rabbitmq() {
  [ -e "$dir/rabbitmq" ] || return 0
  finish "$(pid_rabbitmq)" "-home $dir/rabbitmq" KILL # its data goes too: nothing to shut down in order
  rabbitmq_epmd_down
  rm -rf "$dir/rabbitmq"
  say "rabbitmq: down"
}

rabbitmq_epmd_down() {
  local at
  { [ -n "$(port_of epmd)" ] && answers 127.0.0.1 "$(port_of epmd)"; } || return 0
  for at in "$(command -v epmd || true)" /usr/lib/erlang/bin/epmd; do
    if [ -x "$at" ]; then
      within 10 env ERL_EPMD_PORT="$(port_of epmd)" ERL_EPMD_ADDRESS=127.0.0.1 "$at" -kill >/dev/null 2>&1 || true
      return
    fi
  done
}
