# Debezium for scripts/services: the jars of its PostgreSQL connector and of Kafka Connect, which a test starts by itself. Not a
# server, only to be there.
# shellcheck shell=bash disable=SC2154

debezium_version=3.3.1.Final

debezium_home() { echo "$cache/debezium-$debezium_version"; }

find_debezium() {
  have java || install_debian default-jre-headless || die "Debezium needs Java 17 or later: install it"
  have mvn || install_debian maven ||
    die "Debezium is missing: install Maven (mvn), which fetches it, or name a folder of its jars and Kafka Connect's:
  SKALD_TEST_DEBEZIUM=FOLDER"
}

pid_debezium() { echo none; }

runs_debezium() { compgen -G "$(debezium_home)/debezium-connector-postgres-*.jar" >/dev/null && have java; }

up_debezium() {
  if given debezium || runs_debezium; then return; fi
  say "fetching Debezium $debezium_version (38 MB, once) into $(debezium_home)"
  mkdir -p "$cache"
  local work
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  debezium_pom >"$work/pom.xml"
  quietly mvn -B -q -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/libs" ||
    { rm -rf "$work"; die "Maven could not fetch Debezium $debezium_version"; }
  rm -rf "$(debezium_home)"
  mv "$work/libs" "$(debezium_home)"
  rm -rf "$work"
}

debezium_pom() {
  cat <<TEXT
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>skald</groupId><artifactId>debezium</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>$debezium_version</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>$kafka_version</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>$kafka_version</version></dependency>
  </dependencies>
</project>
TEXT
}

restart_debezium() { :; }

down_debezium() { :; } # kept, as all downloads are
