package playgroundtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// staleHint returns a hint that a failed test may have run an outdated binary. It is empty if no
// binary seems outdated. It compares the oldest of the named binaries with the newest source file
// of this module's commands. The hint may be wrong, because a build does not rewrite a binary that
// has not changed.
func staleHint(root, binDir string, names []string) string {
	name, built := oldest(root, binDir, names)
	if name == "" {
		return ""
	}
	file, changed := newest(root)
	if !changed.After(built) {
		return ""
	}
	return fmt.Sprintf("%s was built before %s was changed: if that is what this test is about, build first (`make build`, or `make integration`)",
		filepath.Join(binDir, name), file)
}

// oldest returns the oldest of the named binaries and its time. It ignores binaries that this
// module does not build.
func oldest(root, binDir string, names []string) (name string, built time.Time) {
	for _, n := range names {
		if _, err := os.Stat(filepath.Join(root, "cmd", n)); err != nil {
			continue
		}
		if info, err := os.Stat(filepath.Join(binDir, n)); err == nil && (name == "" || info.ModTime().Before(built)) {
			name, built = n, info.ModTime()
		}
	}
	return name, built
}

// newest returns the source file of this module's commands that was changed last, and its time. It
// ignores tests and files that it cannot read.
func newest(root string) (file string, changed time.Time) {
	for _, dir := range []string{"api", "cmd", "internal", "pkg"} {
		_ = filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				if err == nil && slices.Contains([]string{"testdata", "playgroundtest"}, entry.Name()) {
					return fs.SkipDir
				}
				return nil
			}
			if strings.HasSuffix(path, "_test.go") {
				return nil
			}
			if info, err := entry.Info(); err == nil && info.ModTime().After(changed) {
				file, changed = path, info.ModTime()
			}
			return nil
		})
	}
	if rel, err := filepath.Rel(root, file); err == nil {
		file = rel
	}
	return file, changed
}
