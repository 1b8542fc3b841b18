package playground

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binaries is a list of places to look for component binaries.
type binaries struct {
	// dirs are searched in order.
	dirs []string
	// lookPath is called if no directory has the binary. It may be nil.
	lookPath func(file string) (string, error)
}

// newBinaries returns the places for binDir. If binDir is not empty, it is the only place, because
// a user who names a directory does not want a binary from elsewhere.
func newBinaries(binDir string) (binaries, error) {
	if binDir != "" {
		dir, err := filepath.Abs(binDir)
		if err != nil {
			return binaries{}, fmt.Errorf("directory of the binaries: %w", err)
		}
		return binaries{dirs: []string{dir}}, nil
	}
	b := binaries{lookPath: exec.LookPath}
	if executable, err := os.Executable(); err == nil {
		b.dirs = []string{filepath.Dir(executable)}
	}
	return b, nil
}

// find returns the absolute path of the named binary.
func (b binaries) find(name string) (string, error) {
	for _, dir := range b.dirs {
		path := filepath.Join(dir, name)
		if isExecutable(path) {
			return path, nil
		}
	}
	places := strings.Join(b.dirs, ", ")
	if b.lookPath != nil {
		if path, err := b.lookPath(name); err == nil {
			return filepath.Abs(path)
		}
		places += " or PATH"
	}
	return "", fmt.Errorf("the binary %s is not in %s; `make build` makes it", name, places)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
