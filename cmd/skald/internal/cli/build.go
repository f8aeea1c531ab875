// This file reads the version of this binary from its build information.

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// build is the output of skald version --json. The field names are stable.
type build struct {
	Version string `json:"version"` // "(devel)" for a checkout
	Commit  string `json:"commit"`  // empty if the build information has no commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// This returns the version of this binary.
func This() build {
	b := build{Version: "(unknown)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				b.Commit = s.Value[:12]
			}
		}
	}
	return b
}

func (b build) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("skald %s %s %s %s/%s", b.Version, b.Commit, b.Go, b.OS,
		b.Arch)), " ")
}

// Unreleased returns true if the Go tool cannot fetch this version, because it was built from a checkout.
func (b build) Unreleased() bool {
	return !strings.HasPrefix(b.Version, "v") || strings.Contains(b.Version, "+dirty")
}
