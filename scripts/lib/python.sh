# Python with confluent-kafka and psycopg, the second clients that tests compare with. Not a server, only to be there.
# shellcheck shell=bash disable=SC2154

python_kafka=2.16.1
python_psycopg=3.3.9

python_home() { echo "$cache/python-confluent-kafka-$python_kafka-psycopg-$python_psycopg"; }

find_python() {
  python3 -c 'import ensurepip' 2>/dev/null || install_debian python3 python3-venv ||
    die "Python is missing: install python3 with venv, or name an interpreter that has confluent-kafka and psycopg: SKALD_TEST_PYTHON=FILE"
}

pid_python() { echo none; }

runs_python() { [ -x "$(python_home)/ready" ]; }

# The folder counts when a link says that it is complete.
up_python() {
  if given python || runs_python; then return; fi
  say "fetching confluent-kafka $python_kafka and psycopg $python_psycopg (once) into $(python_home)"
  rm -rf "$(python_home)"
  mkdir -p "$cache"
  quietly python3 -m venv "$(python_home)" || die "Python made no environment"
  quietly "$(python_home)/bin/pip" install --disable-pip-version-check "confluent-kafka==$python_kafka" "psycopg[binary]==$python_psycopg" ||
    die "pip could not fetch confluent-kafka $python_kafka and psycopg $python_psycopg"
  ln -s bin/python "$(python_home)/ready"
}

restart_python() { :; }

down_python() { :; } # kept, as all downloads are
