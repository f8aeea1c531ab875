// This file writes the files of `skald init`: a service that compiles, with its tests.

package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
)

//go:embed template/*.tmpl template/*/*.tmpl
var templates embed.FS

// Service fills the templates.
type Service struct {
	Module string // the module path
	Name   string // the last part of Module, and the consumer group
	Go     string // the version of the language
	Skald  string // the required version of Skald
	Pgx    string // the required version of pgx; "" leaves the version to go mod tidy
	Kind   Kind
	Broker string // a name of Brokers; "" means a saga without a broker
}

// Kind selects the templates: it is the name of their folder.
type Kind string

// The kinds of services.
const (
	Events      Kind = "events"      // an endpoint, an event and its handler
	Saga        Kind = "saga"        // an endpoint that starts a saga
	Participant Kind = "participant" // commands of sagas
)

// Unreleased is the version of Skald in a build without a version. The new service then needs a replace
// directive with the source folder of Skald.
const Unreleased = "v0.0.0"

const root = "github.com/skald-go/skald"

// Of returns a service with this module path. It requires the same versions of Skald and pgx as this build.
func Of(module string) Service {
	s := Service{Module: module, Name: module[strings.LastIndex(module, "/")+1:], Go: "1.26.0",
		Skald: Unreleased, Kind: Events}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	if v, _, _ := strings.Cut(info.Main.Version, "+"); info.Main.Path == root && strings.HasPrefix(v, "v") {
		s.Skald = v
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/jackc/pgx/v5" && strings.HasPrefix(d.Version, "v") {
			s.Pgx = d.Version
		}
	}
	return s
}

// Brokers returns the brokers for which there are templates.
func Brokers() []string { return slices.Sorted(maps.Keys(starterBrokers())) }

// starterBroker describes a broker to the templates.
type starterBroker struct {
	title, driver, variable, port, url, open string
	compose                                  []string
}

func starterBrokers() map[string]starterBroker {
	return map[string]starterBroker{
		"kafka": {title: "Kafka", driver: "kafkabroker", variable: "KAFKA", port: "9092", url: "kafka://$(KAFKA)",
			open: `kafkabroker.New(os.Getenv("KAFKA"), nil)`,
			compose: []string{
				"  kafka:",
				"    image: apache/kafka:4.1.1",
				`    ports: ["127.0.0.1:9092:9092"]`,
				"    healthcheck:",
				"      test: [CMD-SHELL, /opt/kafka/bin/kafka-broker-api-versions.sh --bootstrap-server localhost:9092 >/dev/null]",
				"      interval: 3s",
				"      retries: 30"}},
		"nats": {title: "NATS", driver: "natsbroker", variable: "NATS", port: "4222",
			url:  "nats://$(NATS)?retain=168h",
			open: `natsbroker.New(os.Getenv("NATS"), &natsbroker.Options{Retain: 7 * 24 * time.Hour})`,
			compose: []string{
				"  nats:",
				"    image: nats:2.15.2-alpine",
				"    entrypoint: [sh, -c]",
				"    command:",
				"      - |",
				`        printf 'http: 8222\njetstream { store_dir: /data, sync_interval: always }\n' >/tmp/nats.conf`,
				"        exec nats-server -c /tmp/nats.conf",
				`    ports: ["127.0.0.1:4222:4222"]`,
				"    healthcheck:",
				`      test: [CMD, wget, -q, -O, /dev/null, "http://127.0.0.1:8222/healthz?js-enabled-only=true"]`,
				"      interval: 1s",
				"      retries: 60"}},
		"rabbitmq": {title: "RabbitMQ", driver: "rabbitbroker", variable: "RABBITMQ", port: "5672",
			url: "amqp://$(RABBITMQ)", open: `rabbitbroker.New(os.Getenv("RABBITMQ"), nil)`,
			compose: []string{
				"  rabbitmq:",
				"    image: rabbitmq:3.10.8",
				`    ports: ["127.0.0.1:5672:5672"]`,
				"    healthcheck:",
				"      test: [CMD, rabbitmq-diagnostics, -q, check_port_connectivity]",
				"      interval: 3s",
				"      retries: 30"}},
	}
}

// NotEmptyError reports that the folder of a new service is not empty.
type NotEmptyError struct{ Dir string }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s is not empty: give a new or empty folder", e.Dir)
}

// Write writes the service into dir, creates dir if needed, and returns the names of the files.
func (s Service) Write(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	case errors.Is(err, syscall.ENOTDIR): // a file
		return nil, &NotEmptyError{dir}
	case err != nil:
		return nil, err
	case len(entries) > 0:
		return nil, &NotEmptyError{dir}
	}
	common, err := fs.Glob(templates, "template/*.tmpl")
	if err != nil {
		return nil, err
	}
	own, err := fs.Glob(templates, "template/"+string(s.Kind)+"/*.tmpl")
	if err != nil {
		return nil, err
	}
	for _, file := range append(common, own...) {
		text, err := templates.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file), ".tmpl")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s.fill(string(text))), 0o644); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// fill replaces the words in double braces. It does not use package text/template, because the linker would
// then keep all exported methods of the program, which would be 20 % of the binary.
func (s Service) fill(text string) string {
	requires := root + " " + s.Skald
	if s.Pgx != "" {
		requires = "github.com/jackc/pgx/v5 " + s.Pgx + "\n\t" + requires
	}
	b, with := starterBrokers()[s.Broker]
	reads, writes, group, parts := "orders", "orders", s.Name, "s.engine"
	switch {
	case s.Kind == Participant:
		reads, writes = "warehouse", "stock"
	case s.Kind == Saga && with:
		reads, writes, group, parts = "stock", "warehouse", s.Name+"-replies", "s.engine, s.replies, s.relay"
	}
	words := []string{"{{module}}", s.Module, "{{name}}", s.Name, "{{go}}", s.Go, "{{requires}}", requires,
		"{{broker}}", b.title, "{{driver}}", b.driver, "{{open}}", b.open, "{{BROKER}}", b.variable,
		"{{port}}", b.port, "{{url}}", b.url, "{{flag}}", s.Broker, "{{parts}}", parts,
		"{{shellurl}}", strings.NewReplacer("(", "", ")", "").Replace(b.url),
		"{{compose}}\n", lines(b.compose), "{{reads}}", reads, "{{writes}}", writes, "{{group}}", group}
	for word, its := range map[string]string{"broker": " and " + b.title, "BROKER": " and " + b.variable,
		"topics": " and topics", "warehouse": " at another service",
		"commands": ", and the commands to the warehouse", "played": " The check plays the warehouse."} {
		if !with {
			its = ""
		}
		words = append(words, "{{and "+word+"}}", its)
	}
	holds := map[string]bool{"broker": with, "local": !with, "writes": with && writes != reads,
		"time": strings.Contains(b.open, "time.")}
	return strings.NewReplacer(words...).Replace(chosen(text, holds))
}

func lines(all []string) string {
	var text strings.Builder
	for _, line := range all {
		text.WriteString(line + "\n")
	}
	return text.String()
}

// chosen removes the lines between {{if X}} and {{end}} if chosenParts[X] is false.
func chosen(text string, chosenParts map[string]bool) string {
	var out strings.Builder
	keep := true
	for line := range strings.Lines(text) {
		switch word := strings.TrimSpace(line); {
		case strings.HasPrefix(word, "{{if "):
			keep = chosenParts[strings.TrimSuffix(strings.TrimPrefix(word, "{{if "), "}}")]
		case word == "{{end}}":
			keep = true
		case keep:
			out.WriteString(line)
		}
	}
	return out.String()
}
