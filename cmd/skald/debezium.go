package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/verbs"
)

const debeziumAbout = `Prints the JSON of a Debezium connector for Kafka Connect. The connector reads Skald's outbox with the
standard EventRouter and publishes the same topics, keys, payloads and CloudEvents headers as
skald relay. docs/adopt.md lists the differences.

Standard error has the SQL of the publication. Run it first: the connector publishes every INSERT that
follows. The JSON has no password: add database.password, or use a config provider of Kafka Connect.`

// debezium holds the settings of a connector.
type debezium struct {
	schema, slot, publication  string
	payload, routeBy, routeTo  string
	host, user, database, name string
	tls                        string // sslmode of the URL
	port                       uint16
}

func debeziumCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "debezium", Short: "Let Debezium read the outbox"}
	c.AddCommand(debeziumConfigCommand(out, errs))
	return c
}

func debeziumConfigCommand(out, errs io.Writer) *cobra.Command {
	var d debezium
	c := &cobra.Command{Use: "config", Short: "Print the JSON of the connector", Long: debeziumAbout,
		Args: cobra.NoArgs}
	f := c.Flags()
	f.String("store", "", "`URL` of the PostgreSQL server, not of a pooler (default: SKALD_STORE)")
	f.StringVar(&d.schema, "schema", "public", "PostgreSQL `SCHEMA` of the tables")
	f.StringVar(&d.name, "name", "skald", "`NAME` of the connector, and the topic.prefix of its own topics")
	f.StringVar(&d.slot, "slot", "skald_debezium", "replication `SLOT`, which the connector creates")
	f.StringVar(&d.publication, "publication", "skald_debezium", "`NAME` of the publication")
	f.StringVar(&d.payload, "payload", "text",
		"column of the payloads: text (data) or bytes (data_bytes); all rows must use it")
	f.StringVar(&d.routeBy, "route-by", "topic",
		"`COLUMN` that names the topic: topic, type, subject or key")
	f.StringVar(&d.routeTo, "route-to", "${routedByValue}",
		"`NAME` of the topic, made of the value of that column: \"${routedByValue}.events.created\"")
	c.RunE = func(c *cobra.Command, _ []string) error {
		store := connect.From(c, "store", "SKALD_STORE")
		db, err := verbs.Open(store, d.schema, "")
		if err != nil {
			return err
		}
		s, ok := db.(verbs.Server)
		if !ok {
			return &cli.UsageError{
				What: "Debezium reads the outbox in PostgreSQL: give --store postgres://…"}
		}
		if d.payload != "text" && d.payload != "bytes" {
			return &cli.UsageError{What: "--payload is text or bytes"}
		}
		if !slices.Contains([]string{"topic", "type", "subject", "key"}, d.routeBy) {
			return &cli.UsageError{What: "--route-by is topic, type, subject or key"}
		}
		if len(d.slot) == 0 || len(d.slot) > 63 || strings.ContainsFunc(d.slot, noSlot) {
			return &cli.UsageError{
				What: "--slot has 1 to 63 characters of a-z 0-9 _, as PostgreSQL requires"}
		}
		d.tls = sslMode(store)
		at := s.Config.ConnConfig
		d.host, d.port, d.user, d.database = at.Host, at.Port, at.User, at.Database
		return d.print(out, errs)
	}
	return c
}

func (d *debezium) print(out, errs io.Writer) error {
	enc := cli.JSON(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(map[string]any{"name": d.name, "config": d.config()}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(errs, "skald: create the topic __debezium-heartbeat.%s in Kafka, too; first run\n%s;\n",
		d.name, d.makePublication())
	return err
}

// makePublication returns the statement that creates the publication. The publication has one table for all
// partitions of the outbox, and only inserts, because retention deletes rows.
func (d *debezium) makePublication() string {
	return fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE %s.skald_outbox WITH (publish = 'insert', publish_via_partition_root = true)",
		pgx.Identifier{d.publication}.Sanitize(), pgx.Identifier{d.schema}.Sanitize())
}

func noSlot(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_') }

// sslMode returns sslmode of the URL, or PGSSLMODE, or "".
func sslMode(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return cmp.Or(u.Query().Get("sslmode"), os.Getenv("PGSSLMODE"))
}

// config returns the settings of the connector. They do not include ce_specversion, because Connect's
// InsertHeader turns the text 1.0 into the number 1.
func (d *debezium) config() map[string]string {
	payload, converter := "data", "org.apache.kafka.connect.storage.StringConverter"
	if d.payload == "bytes" {
		payload, converter = "data_bytes", "io.debezium.converters.BinaryDataConverter"
	}
	all := map[string]string{
		"connector.class":             "io.debezium.connector.postgresql.PostgresConnector",
		"plugin.name":                 "pgoutput",
		"database.hostname":           d.host,
		"database.port":               fmt.Sprint(d.port),
		"database.user":               d.user,
		"database.dbname":             d.database,
		"topic.prefix":                d.name,
		"schema.include.list":         d.schema,
		"table.include.list":          d.schema + ".skald_outbox",
		"slot.name":                   d.slot,
		"publication.name":            d.publication,
		"publication.autocreate.mode": "disabled",
		"snapshot.mode":               "no_data",
		"tombstones.on.delete":        "false",
		"extended.headers.enabled":    "false",
		// Without a heartbeat, a quiet table would leave its last rows unconfirmed, and the slot would
		// retain the WAL of other tables.
		"heartbeat.interval.ms":       "10000",
		"heartbeat.action.query":      "SELECT pg_logical_emit_message(true, 'skald', '')",
		"message.prefix.exclude.list": "skald",
		"key.converter":               "org.apache.kafka.connect.storage.StringConverter",
		"value.converter":             converter,
		"header.converter":            "org.apache.kafka.connect.storage.StringConverter",

		"transforms":                                         "outbox,plain",
		"transforms.outbox.type":                             "io.debezium.transforms.outbox.EventRouter",
		"transforms.outbox.route.by.field":                   d.routeBy,
		"transforms.outbox.route.topic.replacement":          d.routeTo,
		"transforms.outbox.table.field.event.id":             "id",
		"transforms.outbox.table.field.event.key":            "key",
		"transforms.outbox.table.field.event.payload":        payload,
		"transforms.outbox.route.tombstone.on.empty.payload": "true",
		"transforms.outbox.table.op.invalid.behavior":        "error",
		"transforms.outbox.table.fields.additional.placement": "id:header:ce_id,source:header:ce_source,type:header:ce_type,time:header:ce_time," +
			"key:header:ce_partitionkey,seq:header:ce_sequence,content_type:header:content-type,subject:header:ce_subject,schema:header:ce_dataschema," +
			"correlation_id:header:ce_correlationid,causation_id:header:ce_causationid,traceparent:header:ce_traceparent,headers:header:Skald-Headers",
		"transforms.plain.type": "org.apache.kafka.connect.transforms.DropHeaders",
		// The header ce_id has the same value as the header id.
		"transforms.plain.headers": "id,__debezium.context.connectorLogicalName,__debezium.context.taskId,__debezium.context.connectorName",
	}
	if d.tls != "" {
		all["database.sslmode"] = d.tls
	}
	if d.payload == "bytes" { // heartbeats have no bytes
		all["value.converter.delegate.converter.type"] = "org.apache.kafka.connect.json.JsonConverter"
		all["value.converter.delegate.converter.type.schemas.enable"] = "false"
	}
	return all
}
