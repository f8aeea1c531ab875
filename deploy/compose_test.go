package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// compose is what the file says of a service.
type compose struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Environment map[string]string `yaml:"environment"`
		Entrypoint  []string          `yaml:"entrypoint"`
		Command     []string          `yaml:"command"`
		Ports       []string          `yaml:"ports"`
		ShmSize     string            `yaml:"shm_size"`
		Healthcheck struct {
			Test     []string `yaml:"test"`
			Interval string   `yaml:"interval"`
			Retries  int      `yaml:"retries"`
		} `yaml:"healthcheck"`
	} `yaml:"services"`
}

// No Docker runs here: the file is read, and compared with what is written about it and with the scripts.
func TestComposeFile(t *testing.T) {
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true) // a key of another name would be one that is forgotten
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	images := map[string]string{"postgres": "postgres:15", "postgres18": "postgres:18",
		"kafka": "apache/kafka:" + kafkaVersion(t), "rabbitmq": "rabbitmq:" + rabbitVersion(t),
		"nats":  "nats:" + natsVersion(t) + "-alpine",
		"redis": "redis:" + redisVersion(t) + "-alpine"}
	named := regexp.MustCompile(
		`SKALD_TEST_([A-Z0-9_]+)='?(?:[a-z]+://)?(?:[a-z]+@)?127\.0\.0\.1:(\d+)`).FindAllStringSubmatch(
		string(text), -1)
	variables := map[string]string{}
	for _, v := range named {
		variables[v[2]] = strings.ToLower(strings.ReplaceAll(v[1], "_", ""))
	}
	for name, s := range c.Services {
		if s.Image != images[name] {
			t.Errorf("%s is %s, not %q", name, s.Image, images[name])
		}
		if len(s.Healthcheck.Test) < 2 || s.Healthcheck.Interval == "" || s.Healthcheck.Retries == 0 {
			t.Errorf("%s: nobody would know when it is up: %+v", name, s.Healthcheck)
		}
		if len(s.Ports) != 1 {
			t.Fatalf("%s has the ports %v", name, s.Ports)
		}
		at := strings.Split(s.Ports[0], ":")
		if len(at) != 3 || at[0] != "127.0.0.1" {
			t.Fatalf("%s is open to others: %s", name, s.Ports[0])
		}
		if variables[at[1]] != name {
			t.Errorf("no variable leads to %s at port %s: %v", name, at[1], variables)
		}
		delete(images, name)
	}
	if len(images) > 0 || len(named) != len(c.Services) {
		t.Errorf("%v are missing; %d variables", images, len(named))
	}
	if k := c.Services["kafka"]; !strings.Contains(k.Environment["KAFKA_ADVERTISED_LISTENERS"], "127.0.0.1:"+
		strings.Split(k.Ports[0], ":")[1]) {
		t.Errorf("Kafka tells its clients of another address: %s",
			k.Environment["KAFKA_ADVERTISED_LISTENERS"])
	}
	if !slices.Contains(c.Services["postgres"].Command, "-cwal_level=logical") {
		t.Error("PostgreSQL is not set as for the figures")
	}
}

// kafkaVersion is that of scripts/services, rabbitVersion what the tests are known to run on, natsVersion
// that of the server which they build.
func kafkaVersion(t *testing.T) string {
	return version(t, "../scripts/lib/kafka.sh", `(?m)^kafka_version=(\S+)`)
}

func rabbitVersion(t *testing.T) string {
	return version(t, "../docs/versions.md", `(?m)^\| RabbitMQ \| ([0-9.]+)`)
}

func redisVersion(t *testing.T) string {
	return version(t, "../docs/versions.md", `(?m)^\| Redis \| ([0-9.]+)`)
}

func natsVersion(t *testing.T) string {
	return version(t, "../go.mod", `nats-io/nats-server/v2 v(\S+)`)
}

func version(t *testing.T, path, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s names no version", path)
	}
	return string(found[1])
}
