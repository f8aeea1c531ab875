package main

import "github.com/spf13/cobra"

const about = `Skald publishes messages reliably and runs sagas, on your database and your broker. This command creates
the tables, runs the relay, and inspects and repairs messages and sagas.`

const exitCodes = `skald exits with one of these codes:

  0    success; also a relay after SIGTERM or SIGINT
  1    another error
  2    wrong arguments, or --reason, --all or --yes is missing
  3    wrong password, or missing right
  4    a database, schema, topic, message, saga or file does not exist
  5    wrong state: a table is missing or has another version, an object belongs to someone else, the
       database has moved (for outbox recover: has not moved), a saga has ended or turned back
  6    a server does not answer within 10 s
  7    part of the work is done: another operator was first with the rest
  8    a check failed
  130  the demo was interrupted

A verb on many messages or sagas that selects none of them exits with 0.`

const environment = `Keep passwords out of arguments: other users of a machine see them in lists of processes.

  SKALD_STORE             URL of the database, instead of --store (not for the demo)
  SKALD_BROKER            URL of the broker, instead of --broker (not for the demo)
  SKALD_LISTEN            relay: instead of --listen
  SKALD_REGISTRY          URL of the schema registry, instead of --registry
  SKALD_KAFKA_PASSWORD    password for Kafka
  SKALD_NATS_PASSWORD     password for NATS
  SKALD_RABBITMQ_PASSWORD password for RabbitMQ
  SKALD_PASSWORD_COMMAND  a shell command that prints the password for PostgreSQL. It runs for each new
                          connection, so it can print a token that expires
  PGPASSWORD, PGPASSFILE  as for psql; ~/.pgpass works, too

--store @FILE and --broker @FILE read the URL from the first line of a file. The URL of a broker may have
password_file=FILE.`

// topics returns the help pages that do not describe a command.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "Exit codes of all commands", Long: exitCodes},
		{Use: "environment", Short: "Environment variables and passwords", Long: environment},
	}
}

// examples has the command lines for the examples in the help. build adds each line to its command.
const examples = `skald adopt outbox --print > outbox.json
skald adopt outbox --print --table shop.outbox --store postgres://ops@db/shop
skald backup --store sqlite:shop.db --to shop-backup.db
skald compensate o-1 --reason "cancelled by the customer"
skald compensate --flow order --overdue --dry-run
skald console --store orders=@orders.url --store payments=sqlite:payments.db
skald consumer acknowledge-missed --consumer stock --reason "sent again"
skald consumer adopt --broker kafka://db:9092 --consumer stock --from 0123456789abcdef --reason "upgraded to 18"
skald consumer import --consumer stock --source /shop --from seen.csv --dry-run
skald consumer import --consumer http:orders --from keys.csv --reason "cut-over" --yes
skald consumer pause --consumer stock --reason "the warehouse moves"
skald consumer rename stock shelf --broker kafka://db:9092 --dry-run
skald consumer rename stock shelf --broker kafka://db:9092 --reason "service split"
skald consumer resume --consumer stock --reason "the column is there"
skald consumer resume --consumer stock --fingerprint 0123456789ab --reason "fixed"
skald consumer rewind --broker kafka://db:9092 --consumer stock --topic orders --to-time 90m --dry-run
skald consumer skip --consumer stock --fingerprint 0123456789ab --reason "a bad batch"
skald dead drop m-17 --reason "a test order"
skald dead drop --consumer stock --dry-run
skald dead edit m-17 --data @fixed.json --reason "the amount was missing"
skald dead export --consumer stock > dead.jsonl
skald dead groups --since 24h
skald dead import dead.jsonl --reason "moved to another cluster"
skald dead list --consumer stock --since 2h
skald dead list --kind rejected --json
skald dead redrives --since 1h
skald dead redrive m-17 --reason "the column is there"
skald dead redrive --fingerprint 0123456789ab --dry-run
skald dead redrive --fingerprint 0123456789ab --canary --rate 20 --reason "fixed" --yes
skald dead show m-17 --consumer stock
skald debezium config --store postgres://connect@db/shop > connector.json
skald demo
skald demo --sabotage no-mark
skald demo --broker nats://127.0.0.1:4222 --dir shop --keep
skald demo remove --dir shop
skald demo show o-17 --dir shop
skald doctor
skald doctor --broker kafka://db:9092 --topic orders --consumer billing --rate 500
skald inbox admit --number 3 --reason "the id was used twice"
skald inbox admit --why too-old --consumer stock --dry-run
skald inbox show m-17 --consumer stock --source /shop
skald inbox status
skald init orders --module example.com/orders --broker nats
skald init orders --saga --broker kafka
skald init warehouse --participant --broker kafka
skald maintain --dry-run
skald maintain --keep-marks 720h --reason "no relay runs here"
skald migrate --store sqlite:shop.db
skald migrate --broker kafka://db:9092 --topic orders --topic payments --partitions 12
skald migrate --print --format goose --dir migrations
skald outbox drop m-17 --reason "larger than the broker allows"
skald outbox recover --dry-run
skald outbox recover --reason "restored from last night"
skald outbox status
skald outbox write --topic payments --type refund --key o-1 --data '{"order":"o-1"}' --reason "paid twice"
skald parked list --consumer stock
skald parked release --consumer stock --key o-1 --reason "the provider is back"
skald parked release --all --dry-run
skald relay --store postgres://relay@db/shop --broker kafka://db:9092 --metrics :9090
skald relay --schema orders --schema payments
skald roles migrator --schema orders | psql "$SKALD_STORE"
skald roles app relay reader --schema orders | psql "$SKALD_STORE"
skald saga cancel o-1 --reason "cancelled by the customer"
skald saga cancel --name order --at pay --since 2h --dry-run
skald saga check --definitions sagas.json
skald saga complete o-1 --step pay --data '{"receipt":"r-7"}' --reason "found at the provider"
skald saga explain o-1
skald saga graph order o-1
skald saga graph o-1 --form svg > o-1.svg
skald saga holds
skald saga holds seat 12A
skald saga list --stuck
skald saga list --name order --since 2h --status compensating
skald saga pause --name order --at ship --reason "the warehouse moves" --yes
skald saga resume --name order --paused --reason "the warehouse is open" --yes
skald saga retry o-1 --reason "the provider is back"
skald saga retry --stuck --at pay --reason "the provider is back" --yes
skald saga show o-1
skald saga show order o-1 --data
skald saga signal o-1 --signal approved --data true --reason "approved by phone"
skald saga skip o-1 --step mail --reason "the customer has no address"
skald schema check --lock schemas.json --registry http://registry:8081
skald schema check --lock schemas.json
skald schema pull --lock schemas.json --registry http://registry:8081
skald schema push --lock schemas.json --registry http://registry:8081
skald status o-1
skald status o-1 --explain
skald steps list --consumer stock --state dead
skald steps show --saga o-1
skald version`
