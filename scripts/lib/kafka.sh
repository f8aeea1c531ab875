# Apache Kafka for scripts/services: one node that is broker and controller (KRaft).
# shellcheck shell=bash disable=SC2154

kafka_version=4.1.1
kafka_log4j=2.24.3

find_kafka() {
  have java || install_debian default-jre-headless ||
    die "Kafka needs Java 17 or later: install it, or name a server: SKALD_TEST_KAFKA=host:port"
  kafka_libs >/dev/null && return
  have mvn || install_debian maven ||
    die "Kafka is missing: set KAFKA_HOME to an installed one, or install Maven (mvn), which fetches it, or name a
  server: SKALD_TEST_KAFKA=host:port"
  kafka_fetch
}

kafka_libs() { # the folder of its jars
  local bin at
  bin=$(command -v kafka-server-start.sh || command -v kafka-server-start || true)
  [ -z "$bin" ] || bin=$(dirname "$(readlink -f "$bin")")
  for at in ${KAFKA_HOME:+"$KAFKA_HOME/libs"} ${bin:+"$bin/../libs"} "$cache/kafka-$kafka_version"; do
    if compgen -G "$at/kafka_2.13-*.jar" >/dev/null; then
      echo "$at"
      return
    fi
  done
  return 1
}

# By Maven, with whatever settings it has. The folder gets its name when it is complete.
kafka_fetch() {
  local to=$cache/kafka-$kafka_version work
  say "fetching Apache Kafka $kafka_version (43 MB, once) into $to"
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  kafka_pom >"$work/pom.xml"
  quietly mvn -B -q -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/libs" ||
    { rm -rf "$work"; die "Maven could not fetch Apache Kafka $kafka_version"; }
  rm -rf "$to"
  mv "$work/libs" "$to"
  rm -rf "$work"
}

kafka_pom() {
  cat <<TEXT
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>skald</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka_version</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>$kafka_log4j</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>$kafka_log4j</version></dependency>
  </dependencies>
</project>
TEXT
}

pid_kafka() { cat "$dir/kafka.pid" 2>/dev/null || true; }

runs_kafka() { lives "$(pid_kafka)" "$dir/kafka/server.properties" && asks_kafka; }

# Asks for its metadata (version 1, no topics) and looks whether it knows a broker: itself, ready.
asks_kafka() {
  local answer
  # shellcheck disable=SC2016
  answer=$(timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf "\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\xff\xff\0\0\0\0" >&3
    head -c 12 <&3 | od -An -v -tx1' sh "$(port_of kafka)" 2>/dev/null | tr -d ' \n') || return 1
  [ "${answer:8:8}" = 00000001 ] && [ "${answer:16:8}" != 00000000 ]
}

up_kafka() {
  if given kafka || { runs_kafka && [ "$(kafka_properties)" = "$(cat "$dir/kafka/server.properties")" ]; }; then return; fi
  finish "$(pid_kafka)" "$dir/kafka/server.properties" KILL # one that was caught in its start, or has other listeners
  choose_port kafka
  choose_port controller
  local name
  for name in tls sasl sasl_tls; do choose_port "kafka_$name"; done
  mkdir -p "$dir/kafka"
  if [ ! -e "$dir/kafka/certs/server.pem" ]; then
    certificates "$dir/kafka/certs"
    cat "$dir/kafka/certs/server.key" "$dir/kafka/certs/server.crt" >"$dir/kafka/certs/server.pem"
  fi
  kafka_properties >"$dir/kafka/server.properties"
  [ -e "$dir/kafka/data/meta.properties" ] || kafka_format
  kafka_start
  say "kafka: $(address kafka)"
}

kafka_properties() {
  cat <<TEXT
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$(port_of controller)
listeners=PLAINTEXT://127.0.0.1:$(port_of kafka),$(kafka_guarded),CONTROLLER://127.0.0.1:$(port_of controller)
advertised.listeners=PLAINTEXT://127.0.0.1:$(port_of kafka),$(kafka_guarded)
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,SASL_TLS:SASL_SSL
controller.listener.names=CONTROLLER
ssl.keystore.type=PEM
ssl.keystore.location=$dir/kafka/certs/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/kafka/certs/ca.pem
listener.name.tls.ssl.client.auth=requested
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
$(kafka_jaas sasl)
$(kafka_jaas sasl_tls)
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:skald
log.dirs=$dir/kafka/data
auto.create.topics.enable=false
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=33554432
TEXT
}

kafka_guarded() { # the listeners that ask who is there
  printf 'TLS://127.0.0.1:%s,SASL://127.0.0.1:%s,SASL_TLS://127.0.0.1:%s' \
    "$(port_of kafka_tls)" "$(port_of kafka_sasl)" "$(port_of kafka_sasl_tls)"
}

# PLAIN knows one user, skald; tests make theirs for SCRAM through the plain listener, where everybody may do everything.
kafka_jaas() { # kafka_jaas LISTENER
  local name
  printf 'listener.name.%s.plain.sasl.jaas.config=%s required user_skald="plain-secret";\n' "$1" \
    org.apache.kafka.common.security.plain.PlainLoginModule
  for name in 256 512; do
    printf 'listener.name.%s.scram-sha-%s.sasl.jaas.config=%s required;\n' "$1" "$name" \
      org.apache.kafka.common.security.scram.ScramLoginModule
  done
}

kafka_environment() { # what tests read besides SKALD_TEST_KAFKA
  [ -e "$dir/kafka/certs/server.pem" ] || return 0
  local name
  for name in tls sasl sasl_tls; do
    printf "export SKALD_TEST_KAFKA_%s='127.0.0.1:%s'\n" "${name^^}" "$(port_of "kafka_$name")"
  done
  printf "export SKALD_TEST_KAFKA_CERTS='%s'\n" "$dir/kafka/certs"
}

kafka_java() { java -Xms128m -Xmx512m -XX:+ExitOnOutOfMemoryError -Dlog4j2.level=WARN -cp "$(kafka_libs)/*" "$@"; }

kafka_format() {
  local id
  id=A$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c 2-22) # 16 bytes; a leading - would read as a flag
  quietly kafka_java kafka.tools.StorageTool format -t "$id" -c "$dir/kafka/server.properties" ||
    die "Kafka could not format its folder"
}

kafka_start() {
  local detach=nohup
  have setsid && detach="setsid nohup"
  # shellcheck disable=SC2086
  $detach java -Xms128m -Xmx512m -XX:+ExitOnOutOfMemoryError -Dlog4j2.level=WARN -cp "$(kafka_libs)/*" \
    kafka.Kafka "$dir/kafka/server.properties" </dev/null >>"$dir/kafka/log" 2>&1 8>&- 9>&- &
  echo $! >"$dir/kafka.pid"
  within 300 kafka_decided || kafka_failed "does not answer after 300 s"
  lives "$(pid_kafka)" "$dir/kafka/server.properties" || kafka_failed "did not start"
}

kafka_decided() { asks_kafka || ended "$(pid_kafka)"; }

kafka_failed() {
  tail -n 20 "$dir/kafka/log" >&2 || true
  finish "$(pid_kafka)" "$dir/kafka/server.properties" KILL
  die "Kafka $1"
}

restart_kafka() {
  given kafka && die "kafka: $(address_given kafka) is not ours to restart"
  [ -e "$dir/kafka.pid" ] || die "kafka is not running: scripts/services up"
  finish "$(pid_kafka)" "$dir/kafka/server.properties" KILL
  kafka_start
  say "kafka: $(address kafka), restarted"
}

down_kafka() {
  [ -e "$dir/kafka.pid" ] || return 0
  finish "$(pid_kafka)" "$dir/kafka/server.properties" KILL # its data goes too: nothing to shut down in order
  rm -rf "$dir/kafka"
  rm -f "$dir/kafka.pid"
  say "kafka: down"
}
