# What the servers of scripts/services have in common. Sourced, with $root, $dir and $cache set.
# shellcheck shell=bash disable=SC2154

say() { printf '%s\n' "$*" >&2; }
die() { say "services: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" = 0 ]; }

variable() { # variable NAME: what tests read
  case $1 in
    postgres) echo SKALD_TEST_POSTGRES ;;
    postgres*) echo "SKALD_TEST_POSTGRES_${1#postgres}" ;;
    pgbouncer) echo SKALD_TEST_PGBOUNCER ;;
    pgbouncer124) echo SKALD_TEST_PGBOUNCER_124 ;;
    kafka) echo SKALD_TEST_KAFKA ;;
    rabbitmq) echo SKALD_TEST_RABBITMQ ;;
    rabbitmq4) echo SKALD_TEST_RABBITMQ_4 ;;
    nats) echo SKALD_TEST_NATS ;;
    redis) echo SKALD_TEST_REDIS ;;
    python) echo SKALD_TEST_PYTHON ;;
    jdbc) echo SKALD_TEST_JDBC ;;
    node) echo SKALD_TEST_NODE ;;
    chromium) echo SKALD_TEST_CHROMIUM ;;
    debezium) echo SKALD_TEST_DEBEZIUM ;;
  esac
}
address_given() { local v; v=$(variable "$1"); printf '%s' "${!v:-}"; }

# A variable that names our own server, left from an earlier `env`, is not a server from elsewhere.
given() { local at; at=$(address_given "$1"); [ -n "$at" ] && [ "$at" != "$(address "$1")" ]; }

address() {
  local port
  port=$(port_of "$1")
  case $1 in
    postgres* | pgbouncer | pgbouncer124) printf 'postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable' "$port" ;;
    kafka) printf '127.0.0.1:%s' "$port" ;;
    rabbitmq | rabbitmq4) printf 'amqp://127.0.0.1:%s' "$port" ;;
    nats) printf 'nats://127.0.0.1:%s' "$port" ;;
    redis) printf 'redis://127.0.0.1:%s' "$port" ;;
    python) printf '%s/bin/python' "$(python_home)" ;;
    chromium) chromium_program ;;
    jdbc) jdbc_jar ;;
    node) node_home ;;
    debezium) debezium_home ;;
  esac
}

# An address without its password.
shown() { printf '%s' "$1" | sed -E 's#(://[^:/@]*):[^@]*@#\1:***@#'; }

answers() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; } # answers HOST PORT

port_of() { cat "$dir/$1.port" 2>/dev/null || true; }

# The port of a server is remembered, also after down, so that what `env` printed stays true.
choose_port() { # choose_port NAME
  local port try
  port=$(port_of "$1")
  for try in {1..200}; do
    if [ -n "$port" ] && ! answers 127.0.0.1 "$port" && ! taken "$1" "$port"; then
      echo "$port" >"$dir/$1.port"
      return
    fi
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000)) # below the ports that systems hand out by themselves
  done
  die "found no free port for $1 in $try tries"
}

taken() { # taken NAME PORT: another of our servers has it
  local f
  for f in "$dir"/*.port; do
    [ "$f" = "$dir/$1.port" ] || [ "$(cat "$f" 2>/dev/null)" != "$2" ] || return 0
  done
  return 1
}

# Two runs at once in one checkout would start each server twice; two of different checkouts would fetch into the same folder.
locked() {
  have flock || return 0
  exec 9>"$dir/lock"
  flock -w 600 9 || die "another scripts/services has been at work for ten minutes"
  [ "$verb" = up ] || return 0
  mkdir -p "$cache"
  exec 8>"$cache/lock"
  flock -w 600 8 || die "scripts/services of another checkout has been fetching for ten minutes"
}

# Which programs come from where must be settled before the servers start side by side.
prepare() { # prepare NAME
  if given "$1"; then
    [ "$1" = python ] || [ "$1" = jdbc ] || [ "$1" = node ] || [ "$1" = debezium ] || [ "$1" = chromium ] || reach "$1"
  elif ! "runs_$1"; then
    "find_$1"
  fi
}

reach() { # reach NAME: a server from the environment must be there
  local at host port
  at=$(address_given "$1")
  host=${at#*://} && host=${host#*@} && host=${host%%[/?]*} && host=${host%%,*}
  port=${host##*:}
  host=${host%:*} && host=${host#[} && host=${host%]}
  [ "$port" != "$host" ] || port=5432
  answers "$host" "$port" ||
    die "$(variable "$1") names $(shown "$at"), where nothing answers: start it, or unset the variable"
  say "$1: $(shown "$at"), from the environment"
}

updated=
install_debian() { # install_debian PACKAGE…
  { is_root && have apt-get; } || return 1
  say "installing $* (Debian)"
  [ -n "$updated" ] || quietly apt-get update
  updated=yes
  no_autostart quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# Nothing that is installed may start a server of its own.
no_autostart() {
  local policy=/usr/sbin/policy-rc.d made='' rc=0
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made=yes
  fi
  "$@" || rc=$?
  [ -z "$made" ] || rm -f "$policy"
  return "$rc"
}

quietly() { # shows what a command printed only if it failed
  local out
  out=$(mktemp)
  if "$@" </dev/null >"$out" 2>&1 8>&- 9>&-; then rm -f "$out"; return 0; fi
  tail -n 40 "$out" >&2
  rm -f "$out"
  say "failed: $*"
  return 1
}

within() { # within SECONDS COMMAND… : asks again until it succeeds
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

lives() { # lives PID TEXT: the process is there and its command line has TEXT
  [ -n "$1" ] && ps -ww -p "$1" -o args= 2>/dev/null | grep -qF -- "$2"
}

gone() { ! lives "$@"; }

# A process that was just started shows the shell's command line until it has become the server: gone() would be true.
ended() { ! kill -0 "$1" 2>/dev/null; }

finish() { # finish PID TEXT SIGNAL: ends a process of ours, by force after 20 s
  lives "$1" "$2" || return 0
  kill -"$3" "$1" 2>/dev/null || true
  within 20 gone "$1" "$2" && return
  kill -KILL "$1" 2>/dev/null || true
  within 300 gone "$1" "$2" || die "process $1 does not end"
}

# An authority, and with it a server's and a client's certificate, for ten years.
certificates() { # certificates FOLDER
  have openssl || install_debian openssl || die "a TLS listener needs openssl, which makes its certificates"
  local to=$1 name
  mkdir -p "$to"
  quietly openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=skald-test-ca \
    -keyout "$to/ca.key" -out "$to/ca.pem" || die "openssl made no authority"
  for name in server client; do
    quietly openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=skald-$name" \
      -keyout "$to/$name.key" -out "$to/$name.csr" || die "openssl made no key for the $name"
    quietly openssl x509 -req -in "$to/$name.csr" -CA "$to/ca.pem" -CAkey "$to/ca.key" -CAcreateserial -days 3650 \
      -extfile <(echo 'subjectAltName=IP:127.0.0.1,DNS:localhost') -out "$to/$name.crt" || die "openssl signed nothing"
  done
}
