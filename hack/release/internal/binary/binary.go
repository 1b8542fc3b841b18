package binary

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// Module is a Go module that is linked into a program.
type Module struct {
	// Path is the module's import path. Source and Version identify the module that provides the
	// code. Source differs from Path if a replace directive in go.mod names another module.
	Path, Source, Version string
	// Sum is the module's checksum, in the format of go.sum.
	Sum string
}

// Program is an executable file with the build information that the go command embedded.
type Program struct {
	Content []byte
	// Platform is the operating system and architecture of the program.
	Platform product.Platform
	// Go is the version of the toolchain that built the program, such as go1.26.0.
	Go string
	// Package is the import path of the main package. Main is the module that contains it.
	Package string
	Main    Module
	// Modules has the other linked modules, sorted by path.
	Modules []Module
}

// Read reads the build information in the content of an executable file.
func Read(content []byte) (*Program, error) {
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read its build information: %w", err)
	}
	p := &Program{Content: content, Go: info.GoVersion, Package: info.Path, Main: module(&info.Main)}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			p.Platform.OS = s.Value
		case "GOARCH":
			p.Platform.Arch = s.Value
		}
	}
	for _, d := range info.Deps {
		p.Modules = append(p.Modules, module(d))
	}
	slices.SortFunc(p.Modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return p, nil
}

func module(m *debug.Module) Module {
	out := Module{Path: m.Path, Source: m.Path, Version: m.Version, Sum: m.Sum}
	if r := m.Replace; r != nil {
		// If a directory replaces a module, the build information has the version "(devel)". The go
		// command lists no version for it, so the version is removed.
		out.Source, out.Version, out.Sum = r.Path, strings.TrimPrefix(r.Version, "(devel)"), r.Sum
	}
	return out
}

// Check returns an error if the program is for another platform or has another version. It searches
// the content of the program for the version, because a program for another platform cannot run
// here.
func (p *Program) Check(on product.Platform, version string) error {
	if p.Platform != on {
		return fmt.Errorf("it is for %s, want %s", p.Platform, on)
	}
	if version != "" && !bytes.Contains(p.Content, []byte(Stamp(version))) {
		return fmt.Errorf("it is not of version %s: build it again", version)
	}
	return nil
}

// Stamp returns the build metadata for a version of Reprieve. The release appends it to the version
// of Kubernetes that a program reports.
func Stamp(version string) string { return "+reprieve." + strings.ReplaceAll(version, "+", ".") }
