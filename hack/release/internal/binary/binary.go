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

// Module is a module that is linked into a program.
type Module struct {
	// Path is the module's import path. Source and Version name the module that provides its code.
	// Source differs from Path if a module is replaced.
	Path, Source, Version string
	// Sum is the module's checksum, as in go.sum.
	Sum string
}

// Program is a program, with its embedded build information.
type Program struct {
	Content []byte
	// Platform is the platform that the program runs on.
	Platform product.Platform
	// Go is the toolchain that built it, such as go1.26.0.
	Go string
	// Package is the path of the main package, and Main its module.
	Package string
	Main    Module
	// Modules are the other linked modules, by path.
	Modules []Module
}

// Read reads a program.
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
		// A module that is replaced by a directory has no version; the go command lists it without
		// one.
		out.Source, out.Version, out.Sum = r.Path, strings.TrimPrefix(r.Version, "(devel)"), r.Sum
	}
	return out
}

// Check returns an error if the program is for another platform or has another version. It looks
// for the version in the data that the linker wrote, because a program for another platform cannot
// run here.
func (p *Program) Check(on product.Platform, version string) error {
	if p.Platform != on {
		return fmt.Errorf("it is for %s, want %s", p.Platform, on)
	}
	if version != "" && !bytes.Contains(p.Content, []byte(Stamp(version))) {
		return fmt.Errorf("it is not of version %s: build it again", version)
	}
	return nil
}

// Stamp returns the build metadata for a version, which is appended to the version of Kubernetes.
func Stamp(version string) string { return "+reprieve." + strings.ReplaceAll(version, "+", ".") }
