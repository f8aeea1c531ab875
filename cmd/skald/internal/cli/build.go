// This file tells which version this binary is, as the Go tool noted it there.

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// A build is what --json prints: its names are stable.
type build struct {
	Version string `json:"version"` // (devel): of a checkout
	Commit  string `json:"commit"`  // "": the Go tool noted none
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// This is what the Go tool noted in this binary.
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

// Unreleased tells whether the Go tool cannot fetch this version: it is of a checkout.
func (b build) Unreleased() bool {
	return !strings.HasPrefix(b.Version, "v") || strings.Contains(b.Version, "+dirty")
}
