package licenses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
)

// recognized is the part of a text that must match known licences, in percent.
const recognized = 75

// legal matches the names of files with legal texts. The first group matches only if the file is a
// licence.
var legal = regexp.MustCompile(`(?i)^(?:(licen[cs]es?|copying)|notices?|patents)(?:[._-].*)?$`)

// Book has the licences of a set of modules.
type Book struct {
	// texts maps the text of a licence to the modules with this text.
	texts map[string][]string
	// names are the licences' SPDX names, by module.
	names map[string][]string
}

// NewBook returns a Book without modules.
func NewBook() *Book {
	return &Book{texts: make(map[string][]string), names: make(map[string][]string)}
}

// Key returns the name of a module as it is used in a Book.
func Key(m binary.Module) string { return m.Source + "@" + m.Version }

// Names are the SPDX names of the licences, by module.
func (b *Book) Names() map[string][]string { return b.names }

// AddProgram adds the licences of all modules that are linked into a program. dir is a directory of
// the module that the program was built in.
func (b *Book) AddProgram(ctx context.Context, dir string, p *binary.Program) error {
	modules := p.Modules
	// p.Modules does not contain the main module. Add it unless it is a module of this repository.
	// Only modules from the module cache have a checksum.
	if p.Main.Sum != "" {
		modules = append(slices.Clone(modules), p.Main)
	}
	var missing []binary.Module
	for _, m := range modules {
		if _, known := b.names[Key(m)]; !known {
			missing = append(missing, m)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	dirs, err := locate(ctx, dir, missing)
	if err != nil {
		return err
	}
	for _, m := range missing {
		if err := b.Add(Key(m), dirs[Key(m)]); err != nil {
			return err
		}
	}
	return nil
}

// AddToolchain adds the licence of Go, because each program contains Go's runtime and standard
// library.
func (b *Book) AddToolchain(ctx context.Context, dir string) error {
	if _, known := b.names["Go"]; known {
		return nil
	}
	out, err := run(ctx, dir, "env", "GOROOT")
	if err != nil {
		return err
	}
	return b.Add("Go", strings.TrimSpace(string(out)))
}

// Add adds the licences in the directory of a module.
func (b *Book) Add(name, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for the licence of %s: %w", name, err)
	}
	found := false
	ids := []string{}
	for _, f := range files {
		match := legal.FindStringSubmatch(f.Name())
		if f.IsDir() || match == nil || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("read the licence of %s: %w", name, err)
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))
		if text == "" {
			continue
		}
		b.texts[text] = append(b.texts[text], name)
		if match[1] != "" {
			found = true
			ids = append(ids, identify(raw)...)
		}
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	slices.Sort(ids)
	b.names[name] = slices.Compact(ids)
	return nil
}

// identify returns the SPDX names of the licences in a text.
func identify(text []byte) []string {
	coverage := licensecheck.Scan(text)
	if coverage.Percent < recognized {
		return nil
	}
	var out []string
	for _, m := range coverage.Match {
		if !m.IsURL {
			out = append(out, m.ID)
		}
	}
	return out
}

// Text returns all licences. A list of modules precedes the text of each licence.
func (b *Book) Text() []byte {
	type part struct{ modules, text string }
	var parts []part
	for text, modules := range b.texts {
		slices.Sort(modules)
		parts = append(parts, part{strings.Join(slices.Compact(slices.Clone(modules)), "\n"), text})
	}
	slices.SortFunc(parts, func(a, b part) int {
		return strings.Compare(a.modules+"\x00"+a.text, b.modules+"\x00"+b.text)
	})
	var out bytes.Buffer
	out.WriteString("The modules that are linked into this program, and their licences.\n")
	line := strings.Repeat("=", 80)
	for _, p := range parts {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s\n", line, p.modules, line, p.text)
	}
	return out.Bytes()
}

// listed is a module in the JSON output of go list.
type listed struct {
	Path, Version, Dir string
	Replace            *listed
}

// locate returns the directories of modules, by their keys. dir is a directory of the module that
// requires them.
func locate(ctx context.Context, dir string, modules []binary.Module) (map[string]string, error) {
	args := []string{"list", "-m", "-json"}
	want := make(map[string]bool)
	for _, m := range modules {
		args = append(args, m.Path)
		want[Key(m)] = true
	}
	raw, err := run(ctx, dir, args...)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(raw)); ; {
		var m listed
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the list of modules: %w", err)
		}
		at := binary.Module{Source: m.Path, Version: m.Version}
		if m.Replace != nil {
			at.Source, at.Version = m.Replace.Path, m.Replace.Version
		}
		if want[Key(at)] && m.Dir != "" {
			found[Key(at)] = m.Dir
		}
	}
	for key := range want {
		if found[key] == "" {
			return nil, fmt.Errorf("%s is not among the modules of %s: the program is not built from it as it is", key, dir)
		}
	}
	return found, nil
}

// run runs the go command in a directory and returns its output.
func run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
		}
		return nil, fmt.Errorf("go %s in %s: %w", args[0], dir, err)
	}
	return out, nil
}
