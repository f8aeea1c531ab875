# PgBouncer for scripts/services: transaction mode, in front of the PostgreSQL of the same run. It refuses to run as root, too.
# shellcheck shell=bash disable=SC2154

find_pgbouncer() {
  have pgbouncer || [ -x /usr/sbin/pgbouncer ] || install_debian pgbouncer ||
    die "PgBouncer is missing: install it, or name one in transaction mode: SKALD_TEST_PGBOUNCER=postgres://superuser@host/db"
}

pgbouncer_ini() { echo "$(pg_home pgbouncer)/pgbouncer.ini"; }

pid_pgbouncer() { as_postgres cat "$(pg_home pgbouncer)/pid" 2>/dev/null || true; }

runs_pgbouncer() { [ -n "$(pg_home pgbouncer)" ] && lives "$(pid_pgbouncer)" "$(pgbouncer_ini)" && answers 127.0.0.1 "$(port_of pgbouncer)"; }

up_pgbouncer() {
  if given pgbouncer || { runs_pgbouncer && [ "$(pgbouncer_settings)" = "$(as_postgres cat "$(pgbouncer_ini)")" ]; }; then return; fi
  pg_make_home pgbouncer
  finish "$(pid_pgbouncer)" "$(pgbouncer_ini)" INT # one that is in front of another server
  choose_port pgbouncer
  pgbouncer_settings | as_postgres tee "$(pgbouncer_ini)" >/dev/null
  pgbouncer_user | as_postgres tee "$(pg_home pgbouncer)/users" >/dev/null
  pgbouncer_start
  say "pgbouncer: $(address pgbouncer)"
}

# The PostgreSQL behind it: SCHEME://USER:PASSWORD@HOST:PORT/…
pgbouncer_behind() { # pgbouncer_behind PART
  local at user='' password='' host
  if given postgres; then at=$(address_given postgres); else at=$(address postgres); fi
  at=${at#*://} && at=${at%%[/?]*}
  case $at in *@*) user=${at%@*} && at=${at##*@} ;; esac
  case $user in *:*) password=${user#*:} && user=${user%%:*} ;; esac
  host=${at%:*}
  case $1 in
    host) echo "$host" ;;
    port) if [ "$host" = "$at" ]; then echo 5432; else echo "${at##*:}"; fi ;;
    user) echo "${user:-postgres}" ;;
    password) echo "$password" ;;
  esac
}

pgbouncer_user() { printf '"%s" "%s"\n' "$(pgbouncer_behind user)" "$(pgbouncer_behind password)"; }

pgbouncer_settings() { # pgbouncer_settings NAME FOLDER
  local name=${1:-pgbouncer} home=${2:-$(pg_home pgbouncer)}
  cat <<TEXT
[databases]
* = host=$(pgbouncer_behind host) port=$(pgbouncer_behind port)
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $(port_of "$name")
unix_socket_dir =
pool_mode = transaction
auth_type = trust
admin_users = $(pgbouncer_behind user)
auth_file = $home/users
default_pool_size = 20
max_client_conn = 1000
server_idle_timeout = 30
server_login_retry = 1
log_connections = 0
log_disconnections = 0
logfile = $home/log
pidfile = $home/pid
TEXT
}

pgbouncer_start() {
  local program
  program=$(command -v pgbouncer || echo /usr/sbin/pgbouncer)
  as_postgres "$program" -q -d "$(pgbouncer_ini)" </dev/null >/dev/null 2>&1 8>&- 9>&- || pgbouncer_failed "did not start"
  within 300 runs_pgbouncer || pgbouncer_failed "does not answer"
}

pgbouncer_failed() {
  as_postgres tail -n 20 "$(pg_home pgbouncer)/log" >&2 || true
  die "PgBouncer $1"
}

restart_pgbouncer() {
  given pgbouncer && die "pgbouncer: $(shown "$(address_given pgbouncer)") is not ours to restart"
  [ -n "$(pg_home pgbouncer)" ] || die "pgbouncer is not running: scripts/services up pgbouncer"
  finish "$(pid_pgbouncer)" "$(pgbouncer_ini)" KILL
  as_postgres rm -f "$(pg_home pgbouncer)/pid"
  pgbouncer_start
  say "pgbouncer: $(address pgbouncer), restarted"
}

down_pgbouncer() {
  local home
  home=$(pg_home pgbouncer)
  [ -n "$home" ] || return 0
  finish "$(pid_pgbouncer)" "$(pgbouncer_ini)" INT
  rm -rf "$home"
  rm -f "$dir/pgbouncer.home"
  say "pgbouncer: down"
}
