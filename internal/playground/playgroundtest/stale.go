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

// staleHint says that a test may have run something else than what is in the work tree: of the named binaries, which one was built
// before a file was changed that this module's commands are made of. "" where there is none. It is for tests that have failed, and no more
// than a hint: a command that a change does not change is not written again.
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

// oldest is the binary among those named, and made of this module's commands, that was built first.
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

// newest is the file that was changed last of the directories that this module's commands are built from, without those of tests. What
// cannot be read is passed over.
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
