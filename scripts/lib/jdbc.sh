# PostgreSQL's driver for Java: the second language that a test writes the outbox from. Not a server, only to be there.
# shellcheck shell=bash disable=SC2154

jdbc_version=42.7.8

jdbc_jar() { echo "$cache/postgresql-$jdbc_version.jar"; }

find_jdbc() {
  have mvn || install_debian maven ||
    die "PostgreSQL's JDBC driver is missing: install Maven (mvn), which fetches it, or name its jar: SKALD_TEST_JDBC=FILE"
  have javac || install_debian default-jdk-headless || die "a JDK is missing (javac)"
}

pid_jdbc() { echo none; }

runs_jdbc() { [ -f "$(jdbc_jar)" ] && have javac; }

up_jdbc() {
  if given jdbc || runs_jdbc; then return; fi
  mkdir -p "$cache"
  local work
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  quietly mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy \
    -Dartifact="org.postgresql:postgresql:$jdbc_version" -DoutputDirectory="$work" ||
    { rm -rf "$work"; die "Maven could not fetch org.postgresql:postgresql:$jdbc_version"; }
  mv "$work/postgresql-$jdbc_version.jar" "$(jdbc_jar)"
  rm -rf "$work"
}

restart_jdbc() { :; }

down_jdbc() { :; } # kept, as all downloads are
