package deploy

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type probe struct {
	HTTPGet struct {
		Path, Port string
	} `yaml:"httpGet"`
}

// manifest is what is asked of an object; other kinds have less of it.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct{ Name string }
	Spec       struct {
		Selector any
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				SecurityContext struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				Containers []struct {
					Args            []string
					Ports           []struct{ Name string }
					LivenessProbe   probe `yaml:"livenessProbe"`
					ReadinessProbe  probe `yaml:"readinessProbe"`
					SecurityContext struct {
						ReadOnly bool `yaml:"readOnlyRootFilesystem"`
					} `yaml:"securityContext"`
				}
			}
		}
	}
}

// No cluster was at hand: the manifests are read, and held to what the processes serve. kubernetes-validate
// reads them too, where it is.
func TestKubernetesManifests(t *testing.T) {
	for _, file := range []string{"kubernetes/relay.yaml", "kubernetes/shop.yaml"} {
		deployments := 0
		d := yaml.NewDecoder(bytes.NewReader(readFile(t, file)))
		for {
			var m manifest
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || m.APIVersion == "" || m.Kind == "" || m.Metadata.Name == "" ||
				m.Spec.Selector == nil {
				t.Fatalf("%s: %+v: %v", file, m, err)
			}
			if m.Kind != "Deployment" {
				continue
			}
			deployments++
			pod := m.Spec.Template.Spec
			if len(pod.Containers) != 1 || !pod.SecurityContext.RunAsNonRoot {
				t.Fatalf("%s: %+v", file, pod)
			}
			c := pod.Containers[0]
			if c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" ||
				!c.SecurityContext.ReadOnly || !slices.Contains(c.Args, "--metrics") {
				t.Errorf("%s: %+v", file, c)
			}
			for _, p := range []probe{c.LivenessProbe, c.ReadinessProbe} {
				if !slices.ContainsFunc(c.Ports,
					func(port struct{ Name string }) bool { return port.Name == p.HTTPGet.Port }) {
					t.Errorf("%s has no port %q", file, p.HTTPGet.Port)
				}
			}
		}
		if deployments != 1 {
			t.Errorf("%s has %d Deployments", file, deployments)
		}
		lint(t, "kubernetes-validate", file)
	}
}

// The image has a static binary and no root; each instruction is one that there is.
func TestDockerfile(t *testing.T) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
	text, last := string(readFile(t, "Dockerfile")), map[string]string{}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || word == "#" {
			continue
		}
		if !slices.Contains(known, word) {
			t.Errorf("the instruction %q", word)
		}
		last[word] = rest
	}
	if !strings.Contains(text, "CGO_ENABLED=0") || !strings.HasPrefix(last["USER"], "65532") ||
		last["ENTRYPOINT"] != `["/skald"]` || !strings.Contains(last["FROM"], "static") {
		t.Errorf("it ends with %v", last)
	}
	lint(t, "hadolint", "Dockerfile")
	ignored := strings.Split(string(readFile(t, "../.dockerignore")), "\n")
	for _, kept := range []string{".git", "**/.env", "**/*.key", "**/*.db"} { // of this machine
		if !slices.Contains(ignored, kept) {
			t.Errorf(".dockerignore lets %s into the image's build", kept)
		}
	}
}

// The unit has what a service needs, each key in its section once.
func TestSystemdUnit(t *testing.T) {
	section, keys := "", map[string]string{}
	for line := range strings.Lines(string(readFile(t, "systemd/skald-relay.service"))) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = line
		default:
			key, value, ok := strings.Cut(line, "=")
			if _, twice := keys[section+key]; !ok || twice || section == "" {
				t.Errorf("%s: %q", section, line)
			}
			keys[section+key] = value
		}
	}
	for key, want := range map[string]string{"[Service]ExecStart": "/usr/local/bin/skald relay --metrics 127.0.0.1:9090", "[Service]Restart": "always", "[Service]DynamicUser": "yes", "[Install]WantedBy": "multi-user.target"} {
		if keys[key] != want {
			t.Errorf("%s is %q, want %q", key, keys[key], want)
		}
	}
}

// lint runs a linter where it is installed.
func lint(t *testing.T, name, file string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Logf("%s is not installed: %s is only read", name, file)
		return
	}
	if out, err := exec.CommandContext(t.Context(), path, file).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, file, err, out)
	}
}
