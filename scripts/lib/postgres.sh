# PostgreSQL for scripts/services. It refuses to run as root: then it runs as the user postgres, in a folder of theirs.
# shellcheck shell=bash disable=SC2154

find_postgres() {
  pg_bin >/dev/null && return
  install_debian postgresql || die "PostgreSQL 14 or later is missing: install its server package so that initdb is found
  in PATH or in /usr/lib/postgresql/*/bin, or name a server: SKALD_TEST_POSTGRES=postgres://superuser@host/db"
  pg_bin >/dev/null || die "the postgresql package brought no initdb"
}

pg_bin() { # the folder of the newest installed server programs
  local at
  for at in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -t/ -k5 -rn) "$(dirname "$(command -v initdb || echo /none/x)")"; do
    if [ -x "$at/initdb" ] && [ -x "$at/pg_ctl" ]; then
      echo "$at"
      return
    fi
  done
  return 1
}

as_postgres() { # its caller closes the lock: a server would keep it
  if ! is_root; then
    "$@"
  elif have runuser; then
    (cd / && exec runuser -u postgres -- "$@")
  else
    (cd / && exec su postgres -s /bin/sh -c 'exec "$@"' sh "$@")
  fi
}

pg_home() { cat "$dir/postgres.home" 2>/dev/null || true; }

pid_postgres() { as_postgres head -n 1 "$(pg_home)/data/postmaster.pid" 2>/dev/null || true; }

runs_postgres() {
  local home
  home=$(pg_home)
  [ -n "$home" ] && lives "$(pid_postgres)" "$home/data" && asks_postgres
}

asks_postgres() {
  [ "$("$(pg_bin)/psql" -XAtqc 'SELECT 1' "$(address postgres)" 2>/dev/null)" = 1 ]
}

up_postgres() {
  if given postgres || runs_postgres; then return; fi
  pg_make_home
  [ -e "$dir/postgres.made" ] || pg_init
  choose_port postgres
  pg_start
  say "postgres: $(address postgres)"
}

pg_make_home() {
  [ -z "$(pg_home)" ] || return 0
  local home=$dir/postgres
  mkdir -p "$home"
  if is_root && ! as_postgres test -x "$home"; then # the checkout lies where the user postgres cannot go
    rmdir "$home"
    home=$(mktemp -d "${TMPDIR:-/tmp}/skald-postgres.XXXXXX")
  fi
  if is_root; then
    id postgres >/dev/null 2>&1 || die "PostgreSQL refuses to run as root, and there is no user postgres"
    chown postgres "$home"
    as_postgres test -w "$home" || die "the user postgres cannot write to $home: set TMPDIR to a folder it can enter"
  fi
  echo "$home" >"$dir/postgres.home"
}

pg_init() {
  local home
  home=$(pg_home)
  as_postgres rm -rf "$home/data"
  as_postgres "$(pg_bin)/initdb" -D "$home/data" -U postgres -A trust -E UTF8 --locale=C --no-instructions >/dev/null
  pg_settings | as_postgres tee -a "$home/data/postgresql.conf" >/dev/null
  touch "$dir/postgres.made"
}

pg_settings() { # those of the published figures; all else is the default, fsync on
  cat <<'TEXT'
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 1GB
max_connections = 300
wal_level = logical
max_replication_slots = 32
max_wal_senders = 32
TEXT
}

pg_start() {
  local home
  home=$(pg_home)
  as_postgres "$(pg_bin)/pg_ctl" -D "$home/data" -l "$home/log" -o "-p $(port_of postgres)" -w -t 60 start \
    >/dev/null 2>&1 </dev/null 9>&- || pg_failed "did not start"
  within 60 asks_postgres || pg_failed "does not answer"
}

pg_failed() {
  as_postgres tail -n 20 "$(pg_home)/log" >&2 || true
  die "PostgreSQL $1"
}

restart_postgres() {
  given postgres && die "postgres: $(shown "$(address_given postgres)") is not ours to restart"
  [ -e "$dir/postgres.made" ] || die "postgres is not running: scripts/services up"
  finish "$(pid_postgres)" "$(pg_home)/data" QUIT # immediate: nothing is flushed that was not
  pg_start
  say "postgres: $(address postgres), restarted"
}

down_postgres() {
  local home
  home=$(pg_home)
  [ -n "$home" ] || return 0
  finish "$(pid_postgres)" "$home/data" INT # fast: sessions are ended
  rm -rf "$home"
  rm -f "$dir/postgres.home" "$dir/postgres.made"
  say "postgres: down"
}
